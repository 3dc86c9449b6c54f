// One iteration of PageRank, pulled: a thread sums what the vertices that point to its own pass on, each an equal share of its rank.
__global__ void pagerank_gather(const int* __restrict__ offsets, const int* __restrict__ sources, const float* __restrict__ rank,
                                const int* __restrict__ out_degree, float* __restrict__ next_rank, int vertices, float damping) {
  int vertex = blockIdx.x * blockDim.x + threadIdx.x;
  if (vertex >= vertices) return;
  float sum = 0.0f;
  int end = offsets[vertex + 1];
  for (int edge = offsets[vertex]; edge < end; ++edge) {
    int from = sources[edge];
    sum += rank[from] / (float)out_degree[from];
  }
  next_rank[vertex] = (1.0f - damping) / (float)vertices + damping * sum;
}
