// Groups pairs of key and value: counts and sums by group, with global atomics. Pairs are read side by side; what diverges are the
// atomics, each to a group of its own.
__global__ void group_by_sum(const unsigned int* __restrict__ keys, const unsigned int* __restrict__ values,
                             unsigned int* __restrict__ counts, unsigned int* __restrict__ sums, int pairs, unsigned int groups) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += gridDim.x * blockDim.x) {
    unsigned int group = (keys[i] * 2654435761u) % groups;
    atomicAdd(&counts[group], 1u);
    atomicAdd(&sums[group], values[i]);
  }
}
