// Running sums within tiles of 128 by doubling: seven steps, two barriers each. A block asks for so much shared memory that an SM has
// room for few, and the last blocks of the grid make a wave of their own.
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
