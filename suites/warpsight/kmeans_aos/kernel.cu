// The assignment step of k-means, points as an array of structs: a thread compares its point with each centre and reads the point's
// coordinates anew each time, 32 bytes from its neighbour's.
__global__ void kmeans_aos(const float* __restrict__ points, const float* __restrict__ centres, int* __restrict__ nearest, int count,
                           int clusters, int dimensions) {
  int point = blockIdx.x * blockDim.x + threadIdx.x;
  if (point >= count) return;
  float least = 3.4e38f;
  int best = 0;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    float distance = 0.0f;
    for (int d = 0; d < dimensions; ++d) {
      float difference = points[point * dimensions + d] - centres[cluster * dimensions + d];
      distance += difference * difference;
    }
    if (distance < least) {
      least = distance;
      best = cluster;
    }
  }
  nearest[point] = best;
}
