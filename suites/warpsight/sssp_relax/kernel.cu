// One round of single-source shortest paths: a thread relaxes all edges of its vertex if the last round changed that vertex. Distances
// of the last round are read and those of the next one written.
__global__ void sssp_relax(const int* __restrict__ offsets, const int* __restrict__ targets, const int* __restrict__ weights,
                           const int* __restrict__ distance, const unsigned char* __restrict__ changed,
                           int* __restrict__ next_distance, unsigned char* __restrict__ next_changed, int vertices) {
  int vertex = blockIdx.x * blockDim.x + threadIdx.x;
  if (vertex >= vertices || !changed[vertex]) return;
  int own = distance[vertex], end = offsets[vertex + 1];
  for (int edge = offsets[vertex]; edge < end; ++edge) {
    int target = targets[edge], through = own + weights[edge];
    if (through < distance[target]) {
      atomicMin(&next_distance[target], through);
      next_changed[target] = 1;
    }
  }
}
