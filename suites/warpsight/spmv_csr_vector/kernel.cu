// y = A x with A in compressed sparse rows, one warp per row: entries coalesce, x is gathered, and the lanes' sums meet by shuffles.
__global__ void spmv_csr_vector(const int* __restrict__ offsets, const int* __restrict__ columns, const float* __restrict__ values,
                                const float* __restrict__ x, float* __restrict__ y, int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0.0f;
  int end = offsets[row + 1];
  for (int at = offsets[row] + lane; at < end; at += 32) sum += values[at] * x[columns[at]];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
  if (lane == 0) y[row] = sum;
}
