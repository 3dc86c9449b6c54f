// One step of a breadth-first search, top down: a thread takes a vertex of the frontier and marks its neighbours that no earlier
// step has reached. Several threads may mark the same vertex, all with the same value.
__global__ void bfs_frontier(const int* __restrict__ offsets, const int* __restrict__ neighbours, const int* __restrict__ frontier,
                             const int* __restrict__ level, int* __restrict__ next_level, int frontier_size, int depth) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= frontier_size) return;
  int vertex = frontier[i];
  int end = offsets[vertex + 1];
  for (int edge = offsets[vertex]; edge < end; ++edge) {
    int reached = neighbours[edge];
    if (level[reached] < 0) next_level[reached] = depth;
  }
}
