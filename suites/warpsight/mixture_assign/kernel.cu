// The expectation step of a mixture of Gaussians: the logarithm of each point's likelihood over all components. A point's six
// coordinates stand together, 24 bytes from the next point's; they are read once, and then computed with.
#define DIMENSIONS 6

__global__ void mixture_assign(const float* __restrict__ points, const float* __restrict__ means, const float* __restrict__ widths,
                               const float* __restrict__ weights, float* __restrict__ likelihood, int count, int components) {
  int point = blockIdx.x * blockDim.x + threadIdx.x;
  if (point >= count) return;
  float x[DIMENSIONS], total = 0.0f;
#pragma unroll
  for (int d = 0; d < DIMENSIONS; ++d) x[d] = points[point * DIMENSIONS + d];
  for (int component = 0; component < components; ++component) {
    float square = 0.0f;
#pragma unroll
    for (int d = 0; d < DIMENSIONS; ++d) {
      float difference = (x[d] - means[component * DIMENSIONS + d]) * widths[component * DIMENSIONS + d];
      square += difference * difference;
    }
    total += weights[component] * __expf(-0.5f * square);
  }
  likelihood[point] = __logf(total);
}
