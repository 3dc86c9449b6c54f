// The assignment step of k-means, an array for each coordinate: lanes read neighbours, a point stays in registers, and centres are read
// from shared memory, where all lanes want the same word.
#define DIMENSIONS 6
#define CLUSTERS 10

__global__ void kmeans_soa(const float* __restrict__ points, const float* __restrict__ centres, int* __restrict__ nearest,
                           float* __restrict__ least_distance, int count) {
  __shared__ float centre[CLUSTERS * DIMENSIONS];
  for (int i = threadIdx.x; i < CLUSTERS * DIMENSIONS; i += blockDim.x) centre[i] = centres[i];
  __syncthreads();
  int point = blockIdx.x * blockDim.x + threadIdx.x;
  if (point >= count) return;
  float x[DIMENSIONS], least = 3.4e38f;
#pragma unroll
  for (int d = 0; d < DIMENSIONS; ++d) x[d] = points[d * count + point];
  int best = 0;
  for (int cluster = 0; cluster < CLUSTERS; ++cluster) {
    float distance = 0.0f;
#pragma unroll
    for (int d = 0; d < DIMENSIONS; ++d) distance += (x[d] - centre[cluster * DIMENSIONS + d]) * (x[d] - centre[cluster * DIMENSIONS + d]);
    if (distance < least) {
      least = distance;
      best = cluster;
    }
  }
  nearest[point] = best;
  least_distance[point] = least;
}
