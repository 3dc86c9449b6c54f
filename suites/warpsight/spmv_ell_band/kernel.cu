// y = A x with A in ELLPACK, one thread per row: the k-th entries of all rows stand together, so that lanes read neighbours. The
// matrix is a band, and x coalesces as well.
__global__ void spmv_ell_band(const int* __restrict__ columns, const float* __restrict__ values, const float* __restrict__ x,
                              float* __restrict__ y, int rows, int width) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int k = 0; k < width; ++k) {
    int at = k * rows + row;
    sum += values[at] * x[columns[at]];
  }
  y[row] = sum;
}
