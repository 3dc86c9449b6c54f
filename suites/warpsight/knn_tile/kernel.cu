// The four nearest of all references for each query, distances in ascending order: references pass through shared memory in tiles, and a
// thread keeps its four best in registers. Queries are few, so that most of an SM stays empty.
#define TILE 64

__global__ void knn_tile(const float* __restrict__ queries, const float* __restrict__ references, float* __restrict__ nearest,
                         int query_count, int reference_count) {
  __shared__ float x[TILE], y[TILE], z[TILE];
  int query = blockIdx.x * TILE + threadIdx.x;
  float qx = queries[query], qy = queries[query_count + query], qz = queries[2 * query_count + query];
  float first = 3.4e38f, second = first, third = first, fourth = first;
  for (int tile = 0; tile < reference_count; tile += TILE) {
    x[threadIdx.x] = references[tile + threadIdx.x];
    y[threadIdx.x] = references[reference_count + tile + threadIdx.x];
    z[threadIdx.x] = references[2 * reference_count + tile + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < TILE; ++i) {
      float dx = x[i] - qx, dy = y[i] - qy, dz = z[i] - qz;
      float rest = dx * dx + dy * dy + dz * dz, larger;
      larger = fmaxf(first, rest), first = fminf(first, rest), rest = larger;
      larger = fmaxf(second, rest), second = fminf(second, rest), rest = larger;
      larger = fmaxf(third, rest), third = fminf(third, rest), rest = larger;
      fourth = fminf(fourth, rest);
    }
    __syncthreads();
  }
  nearest[query] = first;
  nearest[query_count + query] = second;
  nearest[2 * query_count + query] = third;
  nearest[3 * query_count + query] = fourth;
}
