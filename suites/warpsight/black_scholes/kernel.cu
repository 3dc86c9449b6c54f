// Prices of European call and put options by Black and Scholes, the normal distribution by a polynomial in 1 / (1 + k x).
__device__ float normal(float x) {
  float k = 1.0f / (1.0f + 0.2316419f * fabsf(x));
  float tail = 0.39894228f * __expf(-0.5f * x * x) *
               (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return x > 0.0f ? 1.0f - tail : tail;
}

__global__ void black_scholes(const float* __restrict__ price, const float* __restrict__ strike, const float* __restrict__ years,
                              float* __restrict__ call, float* __restrict__ put, int options, float rate, float volatility) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < options; i += gridDim.x * blockDim.x) {
    float s = price[i], x = strike[i], t = years[i], spread = volatility * sqrtf(t);
    float d1 = (__logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / spread, d2 = d1 - spread;
    float discounted = x * __expf(-rate * t), n1 = normal(d1), n2 = normal(d2);
    call[i] = s * n1 - discounted * n2;
    put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
  }
}
