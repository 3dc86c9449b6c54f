// Softmax along rows of 512, a block per row and four values a thread: the maximum and the sum pass through shuffles and then through
// shared memory.
#define WARPS 4
#define EACH 4

__device__ float over_block(float value, bool maximum, float* of_warp) {
  for (int distance = 16; distance > 0; distance /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, value, distance);
    value = maximum ? fmaxf(value, other) : value + other;
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (int warp = 1; warp < WARPS; ++warp) value = maximum ? fmaxf(value, of_warp[warp]) : value + of_warp[warp];
  __syncthreads();
  return value;
}

__global__ void softmax_rows(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float of_warp[WARPS];
  int first = blockIdx.x * blockDim.x * EACH + threadIdx.x;
  float value[EACH], largest = -3.4e38f, sum = 0.0f;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    value[i] = in[first + i * blockDim.x];
    largest = fmaxf(largest, value[i]);
  }
  largest = over_block(largest, true, of_warp);
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    value[i] = __expf(value[i] - largest);
    sum += value[i];
  }
  sum = 1.0f / over_block(sum, false, of_warp);
#pragma unroll
  for (int i = 0; i < EACH; ++i) out[first + i * blockDim.x] = value[i] * sum;
}
