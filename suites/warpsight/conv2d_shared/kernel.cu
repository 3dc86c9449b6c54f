// 5 x 5 convolution of an image that has a margin of two pixels: a block brings its tile and the margin into shared memory.
#define TILE_X 32
#define TILE_Y 8
#define RADIUS 2
#define SIDE (2 * RADIUS + 1)

__global__ void conv2d_shared(const float* __restrict__ image, const float* __restrict__ weights, float* __restrict__ out, int width,
                              int height) {
  __shared__ float tile[TILE_Y + 2 * RADIUS][TILE_X + 2 * RADIUS];
  int pitch = width + 2 * RADIUS;
  for (int y = threadIdx.y; y < TILE_Y + 2 * RADIUS; y += TILE_Y)
    for (int x = threadIdx.x; x < TILE_X + 2 * RADIUS; x += TILE_X)
      tile[y][x] = image[(blockIdx.y * TILE_Y + y) * pitch + blockIdx.x * TILE_X + x];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int y = 0; y < SIDE; ++y)
#pragma unroll
    for (int x = 0; x < SIDE; ++x) sum += weights[y * SIDE + x] * tile[threadIdx.y + y][threadIdx.x + x];
  out[(blockIdx.y * TILE_Y + threadIdx.y) * width + blockIdx.x * TILE_X + threadIdx.x] = sum;
}
