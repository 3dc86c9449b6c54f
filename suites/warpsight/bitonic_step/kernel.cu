// One step of a bitonic sort in global memory: a thread compares two elements `distance` apart and swaps them if they are out of order
// for their run, whose direction changes every `run` elements.
__global__ void bitonic_step(unsigned int* __restrict__ data, int distance, int run) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  int i = 2 * t - (t & (distance - 1));
  unsigned int first = data[i], second = data[i + distance];
  bool ascending = (i & run) == 0;
  if ((first > second) == ascending) {
    data[i] = second;
    data[i + distance] = first;
  }
}
