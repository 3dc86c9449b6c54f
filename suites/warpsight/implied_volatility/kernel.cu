// Implied volatilities of European call options: Newton's method on the price by Black and Scholes, the normal distribution by a
// polynomial in 1 / (1 + k x). Options are records of 20 bytes, five lines a load; between loads there is much to compute.
struct Option {
  float spot, strike, years, rate, price;
};

__device__ float normal(float x, float density) {
  float k = 1.0f / (1.0f + 0.2316419f * fabsf(x));
  float tail = density * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return x > 0.0f ? 1.0f - tail : tail;
}

__global__ void implied_volatility(const Option* __restrict__ options, float* __restrict__ volatility, int count, int steps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  Option option = options[i];
  float root = sqrtf(option.years), discounted = option.strike * __expf(-option.rate * option.years);
  float forward = __logf(option.spot / discounted), sigma = 0.4f;
  for (int step = 0; step < steps; ++step) {
    float spread = sigma * root, d1 = forward / spread + 0.5f * spread, d2 = d1 - spread;
    float density1 = 0.39894228f * __expf(-0.5f * d1 * d1), density2 = 0.39894228f * __expf(-0.5f * d2 * d2);
    float price = option.spot * normal(d1, density1) - discounted * normal(d2, density2);
    sigma -= (price - option.price) / (option.spot * density1 * root);
  }
  volatility[i] = sigma;
}
