// A tiled matrix multiplication in the shape of Hong and Kim (ISCA 2009), Figure 12: p = m x n, all of width x width.
#define TILE 16

extern "C" __global__ void tiled_matmul(const float* m, const float* n, float* p, int width) {
  __shared__ float m_tile[TILE][TILE];
  __shared__ float n_tile[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int step = 0; step < width / TILE; ++step) {
    m_tile[threadIdx.y][threadIdx.x] = m[row * width + step * TILE + threadIdx.x];
    n_tile[threadIdx.y][threadIdx.x] = n[(step * TILE + threadIdx.y) * width + column];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += m_tile[threadIdx.y][k] * n_tile[k][threadIdx.x];
    __syncthreads();
  }
  p[row * width + column] = sum;
}
