// Launches FlashAttention's forward kernel for FP16 (-DFP8: E4M3) and heads of 128 once, and compares rows of its result with the host's.
// Usage: PROGRAM BATCH KEYS HEADS CAUSAL [QUERIES]. Exit status 0 and "CHECK PASS" if the rows agree within 1 % (FP8: 5 %).
//
// Compiled with flash.h of FlashAttention-2, or with -DHOPPER and flash.h of FlashAttention-3 (folder hopper of its repository),
// and linked with their instantiations. Layout of all tensors: batch, row, head, element.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cutlass/numeric_types.h>

#include "flash.h"

constexpr int WIDTH = 128, CHECKED = 512;
#ifdef FP8  // the kernel rounds the weights to E4M3, too: each by up to 1/16
using Element = cutlass::float_e4m3_t;
using Result = cutlass::bfloat16_t;
constexpr double ALLOWED = 0.05;
#else
using Element = cutlass::half_t;
using Result = cutlass::half_t;
constexpr double ALLOWED = 0.01;
#endif

static void check(cudaError_t status) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
    std::exit(1);
  }
}

template <class Type>
struct Tensor {
  std::vector<Type> host;
  Type *device = nullptr;

  Tensor(size_t size, unsigned seed) : host(size) {
    for (Type &each : host) {
      seed = seed * 1664525u + 1013904223u;
      each = Type((float)(seed >> 8) / (1 << 23) - 1.0f);
    }
    check(cudaMalloc(&device, size * sizeof(Type)));
    check(cudaMemcpy(device, host.data(), size * sizeof(Type), cudaMemcpyHostToDevice));
  }
};

int main(int count, char **text) {
  if (count < 5) return 2;
  const int batch = std::atoi(text[1]), keys = std::atoi(text[2]), heads = std::atoi(text[3]), causal = std::atoi(text[4]);
  const int queries = count > 5 ? std::atoi(text[5]) : keys;
  const size_t row = (size_t)heads * WIDTH;
  Tensor<Element> q(batch * queries * row, 1), k(batch * keys * row, 2), v(batch * keys * row, 3);
  Tensor<Result> o(batch * queries * row, 4);
  float *sums = nullptr;
  check(cudaMalloc(&sums, sizeof(float) * batch * heads * queries));

#ifndef HOPPER
  using namespace FLASH_NAMESPACE;
#endif
  Flash_fwd_params p = {};
  p.q_ptr = q.device, p.k_ptr = k.device, p.v_ptr = v.device, p.o_ptr = o.device, p.softmax_lse_ptr = sums;
  p.q_row_stride = p.k_row_stride = p.v_row_stride = p.o_row_stride = row;
  p.q_head_stride = p.k_head_stride = p.v_head_stride = p.o_head_stride = WIDTH;
  p.q_batch_stride = p.o_batch_stride = queries * row;
  p.k_batch_stride = p.v_batch_stride = keys * row;
  p.b = batch, p.h = p.h_k = heads, p.d = p.d_rounded = WIDTH, p.seqlen_q = queries, p.seqlen_k = keys;
  p.seqlen_q_rounded = (queries + 127) / 128 * 128, p.seqlen_k_rounded = (keys + 127) / 128 * 128;
  p.scale_softmax = 1.0f / std::sqrt((float)WIDTH);
  p.p_dropout = p.rp_dropout = 1.0f, p.p_dropout_in_uint8_t = 255;
  p.window_size_left = -1, p.window_size_right = causal ? 0 : -1, p.is_causal = causal;
  p.num_splits = 1;
#ifdef HOPPER
  p.v_dim_stride = 1, p.b_k = batch, p.dv = p.dv_rounded = WIDTH, p.arch = 90;
  check(cudaDeviceGetAttribute(&p.num_sm, cudaDevAttrMultiProcessorCount, 0));
  int *next_tile = nullptr;
  check(cudaMalloc(&next_tile, sizeof(int)));
  check(cudaMemset(next_tile, 0, sizeof(int)));
  p.tile_count_semaphore = next_tile;
  run_mha_fwd_<90, Element, WIDTH, WIDTH, false, false, false, false>(p, 0);
#else
  p.h_h_k_ratio = 1, p.is_seqlens_k_cumulative = true;
  p.scale_softmax_log2 = p.scale_softmax * 1.4426950408889634f, p.scale_softmax_rp_dropout = p.scale_softmax;
  causal ? run_mha_fwd_<Element, WIDTH, true>(p, 0) : run_mha_fwd_<Element, WIDTH, false>(p, 0);
#endif
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(o.host.data(), o.device, o.host.size() * sizeof(Result), cudaMemcpyDeviceToHost));

  double worst = 0, largest = 0;
  std::vector<float> weights(keys);
  for (int each = 0; each < CHECKED; ++each) {  // rows from all of the result
    const size_t at = (size_t)each * ((size_t)batch * heads * queries / CHECKED);
    const size_t head = at % heads, query = at / heads % queries, of = at / heads / queries;
    const int last = causal ? keys - queries + (int)query + 1 : keys;
    const size_t first = (of * queries + query) * row + head * WIDTH;
    float top = -INFINITY, sum = 0, expected[WIDTH] = {};
    for (int key = 0; key < last; ++key) {
      const Element *other = &k.host[(of * keys + key) * row + head * WIDTH];
      float product = 0;
      for (int i = 0; i < WIDTH; ++i) product += float(q.host[first + i]) * float(other[i]);
      weights[key] = product * p.scale_softmax;
      top = std::fmax(top, weights[key]);
    }
    for (int key = 0; key < last; ++key) {
      const float weight = std::exp(weights[key] - top);
      const Element *value = &v.host[(of * keys + key) * row + head * WIDTH];
      for (int i = 0; i < WIDTH; ++i) expected[i] += weight * float(value[i]);
      sum += weight;
    }
    for (int i = 0; i < WIDTH; ++i) {
      worst = std::fmax(worst, std::fabs(expected[i] / sum - float(o.host[first + i])));
      largest = std::fmax(largest, std::fabs(expected[i] / sum));
    }
  }
  const bool passed = largest > 0 && worst <= ALLOWED * largest;
  std::printf("largest error %g of %g: CHECK %s\n", worst, largest, passed ? "PASS" : "FAIL");
  return passed ? 0 : 1;
}
