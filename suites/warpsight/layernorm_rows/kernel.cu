// Layer normalisation of rows of 256, a block per row and a value a thread: two tree reductions in shared memory, a barrier after each
// of their steps.
#define WIDTH 256

__device__ float sum_of_block(float value, float* tree) {
  tree[threadIdx.x] = value;
  __syncthreads();
  for (int half = WIDTH / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    __syncthreads();
  }
  float sum = tree[0];
  __syncthreads();
  return sum;
}

__global__ void layernorm_rows(const float* __restrict__ in, const float* __restrict__ gain, const float* __restrict__ bias,
                               float* __restrict__ out, float epsilon) {
  __shared__ float tree[WIDTH];
  int at = blockIdx.x * WIDTH + threadIdx.x;
  float value = in[at];
  float centred = value - sum_of_block(value, tree) / WIDTH;
  float variance = sum_of_block(centred * centred, tree) / WIDTH;
  out[at] = centred * rsqrtf(variance + epsilon) * gain[threadIdx.x] + bias[threadIdx.x];
}
