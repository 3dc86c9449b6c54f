// Launches DeepGEMM's product of FP8 with scales (sm90_fp8_gemm_1d2d) once, and compares elements with the host's.
// Usage: PROGRAM M. Exit status 0 and "CHECK PASS" if they agree within 1 %.
//
// Compiled with -DCOLUMNS= -DDEPTH= and what the library's heuristic selects for the shape on 132 SMs: -DTILE_M= -DTILE_N=
// -DSTAGES= -DCLUSTER= (blocks that share a tile of the second operand's rows, 1 or 2) -DON_A= (1: that share a tile of the first one's).
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh>

constexpr int BLOCK_K = 128, SMS = 132, COPYING = 128, MULTIPLYING = TILE_M <= 64 ? 128 : 256, CHECKED = 8000;
constexpr int MODE_D = TILE_N % 64 == 0 ? 128 : TILE_N % 32 == 0 ? 64 : 32;  // bytes of the swizzle of the result
constexpr int STEPS = (DEPTH + BLOCK_K - 1) / BLOCK_K;

static int aligned(int value, int to) { return (value + to - 1) / to * to; }

static CUtensorMap map_of(CUtensorMapDataType type, int bytes, void *data, int inner, int outer, int tile_inner, int tile_outer,
                          int swizzle) {
  using Encode = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                              const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  void *found = nullptr;
  cudaDriverEntryPointQueryResult how;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &how);
  const cuuint64_t size[2] = {(cuuint64_t)inner, (cuuint64_t)outer}, stride[1] = {(cuuint64_t)inner * bytes};
  const cuuint32_t tile[2] = {(cuuint32_t)(swizzle ? swizzle / bytes : tile_inner), (cuuint32_t)tile_outer}, step[2] = {1, 1};
  const CUtensorMapSwizzle mode = swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                  : swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                  : swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                  : CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMap map;
  if (!found || ((Encode)found)(&map, type, 2, data, size, stride, tile, step, CU_TENSOR_MAP_INTERLEAVE_NONE, mode,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    std::exit(1);
  return map;
}

static unsigned seed = 1;

static float random_number() {
  seed = seed * 1664525u + 1013904223u;
  return (float)(seed >> 8) / (1 << 23) - 1.0f;
}

template <class T> static T *copied(const std::vector<T> &values) {
  T *device = nullptr;
  if (cudaMalloc(&device, values.size() * sizeof(T)) != cudaSuccess) std::exit(1);
  cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return device;
}

int main(int count, char **text) {
  if (count < 2) return 2;
  const int m = std::atoi(text[1]), width = aligned(m, 4);  // of the scales of A, which lie by step
  std::vector<__nv_fp8_e4m3> a((size_t)m * DEPTH), b((size_t)COLUMNS * DEPTH);
  std::vector<float> scales_a((size_t)STEPS * width), scales_b((size_t)((COLUMNS + 127) / 128) * STEPS);
  std::vector<__nv_bfloat16> d((size_t)m * COLUMNS);
  for (auto &each : a) each = __nv_fp8_e4m3(random_number());
  for (auto &each : b) each = __nv_fp8_e4m3(random_number());
  for (auto &each : scales_a) each = 1.0f + 0.5f * random_number();
  for (auto &each : scales_b) each = 1.0f + 0.5f * random_number();
  auto *first = copied(a), *second = copied(b);
  auto *scales_first = copied(scales_a), *scales_second = copied(scales_b);
  auto *result = copied(d);

  const auto BYTES = CU_TENSOR_MAP_DATA_TYPE_UINT8, FLOATS = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const CUtensorMap map_a = map_of(BYTES, 1, first, DEPTH, m, BLOCK_K, TILE_M, BLOCK_K);
  const CUtensorMap map_b = map_of(BYTES, 1, second, DEPTH, COLUMNS, BLOCK_K, TILE_N, BLOCK_K);
  const CUtensorMap map_d = map_of(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, result, COLUMNS, m, TILE_N, TILE_M, MODE_D);
  const CUtensorMap map_scales = map_of(FLOATS, 4, scales_first, width, STEPS, TILE_M, 1, 0);

  auto kernel = &deep_gemm::sm90_fp8_gemm_1d2d_impl<
      cute::UMMA::Major::K, 0, COLUMNS, DEPTH, 1, TILE_M, TILE_N, BLOCK_K, BLOCK_K, BLOCK_K, MODE_D, STAGES, COPYING, MULTIPLYING, CLUSTER,
      ON_A, SMS, deep_gemm::GemmType::Normal, cutlass::bfloat16_t, deep_gemm::epilogue::transform::EpilogueIdentity>;
  const int scales = aligned(STEPS * 4 * (BLOCK_K % TILE_N == 0 ? 1 : 2), 8);
  const int shared = aligned(TILE_M * TILE_N * 2, 1024) + 16 * 8 * 2 + scales +
                     STAGES * ((TILE_M + TILE_N) * BLOCK_K + aligned(TILE_M * 4, 128));
  cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = CLUSTER, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(SMS), launch.blockDim = dim3(COPYING + MULTIPLYING), launch.dynamicSmemBytes = shared;
  launch.attrs = &cluster, launch.numAttrs = 1;
  cudaError_t status = cudaLaunchKernelEx(&launch, kernel, scales_second, (int *)nullptr, (uint32_t)m, (uint32_t)COLUMNS, (uint32_t)DEPTH,
                                          map_a, map_b, map_d, map_scales);
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  cudaMemcpy(d.data(), result, d.size() * sizeof(d[0]), cudaMemcpyDeviceToHost);

  double worst = 0, largest = 0;
  for (int each = 0; each < CHECKED; ++each) {
    const size_t at = (size_t)each * (d.size() / CHECKED), row = at / COLUMNS, column = at % COLUMNS;
    double expected = 0;
    for (int step = 0; step < STEPS; ++step) {
      double sum = 0;
      for (int k = step * BLOCK_K; k < std::min(DEPTH, (step + 1) * BLOCK_K); ++k)
        sum += (double)(float)a[row * DEPTH + k] * (double)(float)b[column * DEPTH + k];
      expected += sum * scales_a[(size_t)step * width + row] * scales_b[column / 128 * STEPS + step];
    }
    worst = std::fmax(worst, std::fabs(expected - (double)__bfloat162float(d[at])));
    largest = std::fmax(largest, std::fabs(expected));
  }
  const bool passed = status == cudaSuccess && largest > 0 && worst <= 0.01 * largest;
  std::printf("%s, largest error %g of %g: CHECK %s\n", cudaGetErrorString(status), worst, largest, passed ? "PASS" : "FAIL");
  return passed ? 0 : 1;
}
