// Attention scores of a few queries against all keys, one thread per key: lanes read keys of their own, 256 bytes apart, in pieces of
// 16 bytes, and every query reads them again.
#define WIDTH 64

__global__ void attention_scores(const float4* __restrict__ queries, const float4* __restrict__ keys, float* __restrict__ scores,
                                 int count, float scale) {
  int key = blockIdx.x * blockDim.x + threadIdx.x, query = blockIdx.y;
  if (key >= count) return;
  float sum = 0.0f;
  for (int i = 0; i < WIDTH / 4; ++i) {
    float4 q = queries[query * (WIDTH / 4) + i], k = keys[key * (WIDTH / 4) + i];
    sum += q.x * k.x + q.y * k.y + q.z * k.z + q.w * k.w;
  }
  scores[query * count + key] = __expf(scale * sum);
}
