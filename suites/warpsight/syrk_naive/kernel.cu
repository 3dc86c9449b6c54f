// C = beta C + alpha A A^T, one thread per element of C: both factors are rows of A, and lanes take 32 different ones.
__global__ void syrk_naive(const float* __restrict__ a, float* __restrict__ c, int order, int depth, float alpha, float beta) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= order || j >= order) return;
  float sum = 0.0f;
  for (int k = 0; k < depth; ++k) sum += a[i * depth + k] * a[j * depth + k];
  c[i * order + j] = alpha * sum + beta * c[i * order + j];
}
