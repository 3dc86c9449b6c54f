// Running sums within blocks of 1,024 by doubling: ten steps, two barriers each. Shared memory leaves room for one block on an SM, so
// that nothing runs while its warps wait for each other; there are a few blocks more than SMs.
__global__ void block_scan(const int* __restrict__ in, int* __restrict__ out, int tiles) {
  extern __shared__ int sums[];
  for (int tile = 0; tile < tiles; ++tile) {
    int at = (blockIdx.x * tiles + tile) * blockDim.x + threadIdx.x;
    sums[threadIdx.x] = in[at];
    __syncthreads();
    for (int distance = 1; distance < blockDim.x; distance *= 2) {
      int before = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
      __syncthreads();
      sums[threadIdx.x] += before;
      __syncthreads();
    }
    out[at] = sums[threadIdx.x];
  }
}
