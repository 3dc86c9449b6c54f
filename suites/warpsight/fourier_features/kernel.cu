// A layer on Fourier features: sums of sines and cosines of sixteen frequencies, with weights, for four coordinates a thread. Two special
// functions to three other instructions.
#define FREQUENCIES 16
#define EACH 4

__global__ void fourier_features(const float* __restrict__ coordinates, const float* __restrict__ weights, float* __restrict__ out,
                                 int count) {
  int first = blockIdx.x * blockDim.x * EACH + threadIdx.x;
  float x[EACH], sum[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    int at = first + i * blockDim.x;
    x[i] = at < count ? coordinates[at] : 0.0f;
    sum[i] = 0.0f;
  }
#pragma unroll
  for (int k = 0; k < FREQUENCIES; ++k) {
    float of_sine = weights[2 * k], of_cosine = weights[2 * k + 1];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      float angle = x[i] * (float)(k + 1);
      sum[i] += of_sine * __sinf(angle);
      sum[i] += of_cosine * __cosf(angle);
    }
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (first + i * blockDim.x < count) out[first + i * blockDim.x] = sum[i];
}
