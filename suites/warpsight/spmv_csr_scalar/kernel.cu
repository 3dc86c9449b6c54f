// y = A x with A in compressed sparse rows, one thread per row. Lanes walk rows of their own: neither the entries nor x coalesce.
__global__ void spmv_csr_scalar(const int* __restrict__ offsets, const int* __restrict__ columns, const float* __restrict__ values,
                                const float* __restrict__ x, float* __restrict__ y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int at = offsets[row]; at < offsets[row + 1]; ++at) sum += values[at] * x[columns[at]];
  y[row] = sum;
}
