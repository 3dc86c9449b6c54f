// The row pass of an integral image (summed-area table), one thread per row: lanes read and write a whole row apart.
__global__ void integral_rows(const float* __restrict__ image, float* __restrict__ sums, int width, int height) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= height) return;
  float sum = 0.0f;
  for (int x = 0; x < width; ++x) {
    sum += image[row * width + x];
    sums[row * width + x] = sum;
  }
}
