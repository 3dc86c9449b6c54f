// Histogram of 8-bit values: each block counts in shared memory with atomics and adds its counts to the global ones at the end.
#define BINS 256

__global__ void histogram_shared(const unsigned int* __restrict__ words, unsigned int* __restrict__ bins, int count) {
  __shared__ unsigned int own[BINS];
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) own[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    unsigned int word = words[i];
    atomicAdd(&own[word & 255u], 1u);
    atomicAdd(&own[(word >> 8) & 255u], 1u);
    atomicAdd(&own[(word >> 16) & 255u], 1u);
    atomicAdd(&own[word >> 24], 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) atomicAdd(&bins[bin], own[bin]);
}
