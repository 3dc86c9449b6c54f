// The column pass of an integral image, one thread per column: lanes read and write neighbours, but each row waits for the one before
// it, and an SM has few warps.
__global__ void integral_columns(const float* __restrict__ image, float* __restrict__ sums, int width, int height) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= width) return;
  float sum = 0.0f;
#pragma unroll 1
  for (int y = 0; y < height; ++y) {
    sum += image[y * width + column];
    sums[y * width + column] = sum;
  }
}
