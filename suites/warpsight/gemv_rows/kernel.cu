// y = A x with A dense and stored by rows, one thread per row: lanes are a whole row apart, each load of A touches 32 lines.
__global__ void gemv_rows(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int k = 0; k < columns; ++k) sum += a[row * columns + k] * x[k];
  y[row] = sum;
}
