// Embedding look-up of bags of words: four lanes share a bag and sum its words' vectors of 16 floats, four floats a lane. The vectors
// of a warp's eight bags lie anywhere in a table that no cache holds.
__global__ void embedding_bag(const int* __restrict__ words, const float4* __restrict__ table, float4* __restrict__ sums, int bags,
                              int bag_size) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x, bag = thread / 4, part = thread % 4;
  if (bag >= bags) return;
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int i = 0; i < bag_size; ++i) {
    float4 vector = table[words[bag * bag_size + i] * 4 + part];
    sum.x += vector.x;
    sum.y += vector.y;
    sum.z += vector.z;
    sum.w += vector.w;
  }
  sums[thread] = sum;
}
