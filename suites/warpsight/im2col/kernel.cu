// Unfolds the 3 x 3 surroundings of each pixel of each channel into columns, so that a convolution becomes a matrix product: nine
// stores for a pixel, nine loads that the L1 mostly has.
#define SIDE 3

__global__ void im2col(const float* __restrict__ image, float* __restrict__ columns, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, channel = blockIdx.z;
  if (x >= width) return;
  int pixels = width * height;
  const float* from = image + channel * pixels;
  float* to = columns + channel * SIDE * SIDE * pixels + y * width + x;
#pragma unroll
  for (int dy = 0; dy < SIDE; ++dy)
#pragma unroll
    for (int dx = 0; dx < SIDE; ++dx) {
      int row = y + dy - 1, column = x + dx - 1;
      bool inside = row >= 0 && row < height && column >= 0 && column < width;
      to[(dy * SIDE + dx) * pixels] = inside ? from[row * width + column] : 0.0f;
    }
}
