// Solves L X = B in double precision, L lower triangular with rows in order, one thread per column of B. Each step needs the one
// before it, and a block has two warps: little to hide latencies with.
__global__ void trsm_fp64(const double* __restrict__ lower, double* __restrict__ b, int order, int columns) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  for (int row = 0; row < order; ++row) {
    double value = b[row * columns + column];
    for (int k = 0; k < row; ++k) value -= lower[row * order + k] * b[k * columns + column];
    b[row * columns + column] = value / lower[row * order + row];
  }
}
