// One radix-8 stage of a Fourier transform: a thread transforms eight complex numbers that stand together, turns the results by their
// twiddle factors and spreads them over eight parts of the output. Loads are 64 bytes apart from lane to lane, stores coalesce.
__device__ float2 plus(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 minus(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
__device__ float2 times_minus_i(float2 a) { return make_float2(a.y, -a.x); }

__device__ void fourier4(float2& a, float2& b, float2& c, float2& d) {
  float2 sum_ac = plus(a, c), difference_ac = minus(a, c), sum_bd = plus(b, d), difference_bd = times_minus_i(minus(b, d));
  a = plus(sum_ac, sum_bd);
  b = plus(difference_ac, difference_bd);
  c = minus(sum_ac, sum_bd);
  d = minus(difference_ac, difference_bd);
}

__global__ void fft_radix8(const float2* __restrict__ in, float2* __restrict__ out, int eighth) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= eighth) return;
  float2 v[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) v[j] = in[8 * t + j];
  fourier4(v[0], v[2], v[4], v[6]);
  fourier4(v[1], v[3], v[5], v[7]);
  const float half = 0.70710678f;
  v[3] = times(v[3], make_float2(half, -half));
  v[5] = times_minus_i(v[5]);
  v[7] = times(v[7], make_float2(-half, -half));
  float2 result[8];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    result[k] = plus(v[2 * k], v[2 * k + 1]);
    result[k + 4] = minus(v[2 * k], v[2 * k + 1]);
  }
  float angle = -0.78539816f * (float)t / (float)eighth;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    float sine, cosine;
    __sincosf(angle * (float)k, &sine, &cosine);
    out[k * eighth + t] = times(result[k], make_float2(cosine, sine));
  }
}
