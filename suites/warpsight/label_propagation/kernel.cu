// One round of connected components by labels, over a list of edges: each end takes the smaller label of the two. Labels of the last
// round are read and those of the next one written, so that the result does not depend on the order of edges.
__global__ void label_propagation(const int* __restrict__ from, const int* __restrict__ to, const int* __restrict__ labels,
                                  int* __restrict__ next_labels, int edges) {
  int edge = blockIdx.x * blockDim.x + threadIdx.x;
  if (edge >= edges) return;
  int u = from[edge], v = to[edge];
  int label_u = labels[u], label_v = labels[v];
  if (label_u < label_v) atomicMin(&next_labels[v], label_u);
  if (label_v < label_u) atomicMin(&next_labels[u], label_v);
}
