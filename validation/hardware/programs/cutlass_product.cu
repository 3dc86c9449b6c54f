// Launches the CUTLASS kernel of blackwell-tensorcore-kernels once, and compares elements of the product with the host's.
// Usage: PROGRAM M N K. Exit status 0 and "CHECK PASS" if they are equal: operands are -1, 0 and 1, so that products are exact.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

void launch_cutlass_sm90(const float *A, const float *B, float *C, int M, int N, int K);

constexpr int CHECKED = 8000;

static float *copied(std::vector<float> &values, unsigned seed) {
  for (float &each : values) {
    seed = seed * 1664525u + 1013904223u;
    each = (float)((seed >> 16) % 3) - 1.0f;
  }
  float *device = nullptr;
  if (cudaMalloc(&device, values.size() * sizeof(float)) != cudaSuccess) std::exit(1);
  cudaMemcpy(device, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  return device;
}

int main(int count, char **text) {
  if (count < 4) return 2;
  const int m = std::atoi(text[1]), n = std::atoi(text[2]), k = std::atoi(text[3]);
  std::vector<float> a((size_t)m * k), b((size_t)k * n), c((size_t)m * n);
  float *first = copied(a, 1), *second = copied(b, 2), *result = copied(c, 3);
  launch_cutlass_sm90(first, second, result, m, n, k);
  cudaError_t status = cudaDeviceSynchronize();
  cudaMemcpy(c.data(), result, c.size() * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = status != cudaSuccess;
  for (int each = 0; each < CHECKED; ++each) {
    const size_t at = (size_t)each * (c.size() / CHECKED), row = at / n, column = at % n;
    float expected = 0;
    for (int i = 0; i < k; ++i) expected += a[row * k + i] * b[(size_t)i * n + column];
    wrong += c[at] != expected;
  }
  std::printf("%s, %d of %d elements differ: CHECK %s\n", cudaGetErrorString(status), wrong, CHECKED, wrong ? "FAIL" : "PASS");
  return wrong != 0;
}
