// The kernels of Warpsight's micro-benchmarks. Each is timed so that one number of a GPU decides it.
//
// Loads are written in PTX, so that no compiler drops, joins or moves them. A clock is read after a store of what was loaded last:
// instructions of a warp issue in order, and the store waits for its operand.
#pragma once

typedef unsigned long long u64;

static __device__ __forceinline__ u64 clock_now() {
  u64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) : : "memory");
  return now;
}

static __device__ __forceinline__ u64 next_of(u64 place) {
  u64 next;
  asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(next) : "l"(place) : "memory");
  return next;
}

static __device__ __forceinline__ void keep(u64* out, u64 value) {
  asm volatile("st.global.u64 [%0], %1;" : : "l"(out), "l"(value) : "memory");
}

// The first place in `room` whose address is a multiple of `align` (a power of two): the sets of a cache depend on addresses.
static __device__ __forceinline__ u64 aligned(const void* room, u64 align) {
  return ((u64)room + align - 1) & ~(align - 1);
}

// A ring of `lines` pointers `stride` bytes apart, written by the warp itself, then followed by its first thread: `warm` loads and,
// timed, `steps` more, multiples of 8. Latency is out[0] / steps. One block of 32 threads; `room` holds align + lines * stride bytes.
extern "C" __global__ void chase(char* room, u64 align, u64 stride, int lines, int warm, int steps, u64* out) {
  u64 base = aligned(room, align);
  for (int i = threadIdx.x; i < lines; i += 32) {
    *(volatile u64*)(base + i * stride) = base + (i + 1 < lines ? i + 1 : 0) * stride;
  }
  __threadfence();
  __syncwarp();
  if (threadIdx.x) return;
  u64 place = base;
  for (int i = 0; i < warm; i += 8) {
#pragma unroll
    for (int k = 0; k < 8; k++) place = next_of(place);
  }
  keep(out + 1, place);
  u64 start = clock_now();
  for (int i = 0; i < steps; i += 8) {
#pragma unroll
    for (int k = 0; k < 8; k++) place = next_of(place);
  }
  keep(out + 1, place);
  u64 end = clock_now();
  keep(out, end - start);
}

// `count` loads of different lines, `stride` bytes apart and in no cache, at most 512, and behind them one that hits in the L1. While
// miss registers last, the hit passes the misses; the first miss without one holds it up until a line arrives. out[0] is the time
// until the hit's data are there. One block of 32 threads; the first line is the one that hits.
extern "C" __global__ void misses(const char* room, u64 align, u64 stride, int count, u64* out) {
  u64 base = aligned(room, align);
  u64 place[16], value[16];
#pragma unroll
  for (int k = 0; k < 16; k++) {
    int number = 32 * k + threadIdx.x;
    // threads that are to miss nothing load the line that hits
    place[k] = number < count ? base + (number + 1) * stride : base;
    asm volatile("" : "+l"(place[k]));
  }
  keep(out + 1 + threadIdx.x, next_of(base));
  __syncwarp();
  u64 start = clock_now();
#pragma unroll
  for (int k = 0; k < 16; k++) value[k] = next_of(place[k]);
  keep(out + 1 + threadIdx.x, next_of(base));
  u64 end = clock_now();
  u64 sum = 0;
#pragma unroll
  for (int k = 0; k < 16; k++) sum += value[k];
  keep(out + 33 + threadIdx.x, sum);
  if (threadIdx.x == 0) keep(out, end - start);
}

static __device__ __forceinline__ uint4 from_l2(const uint4* place) {
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(place) : "memory");
  return v;
}

// All threads of the grid together read `count` pieces of 16 bytes once: the bandwidth of DRAM, where no cache has them.
// `count` is a multiple of four times the threads of the grid.
extern "C" __global__ void __launch_bounds__(1024) stream(const uint4* data, u64 count, unsigned* out) {
  u64 threads = (u64)gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += 4 * threads) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = from_l2(data + i + k * threads);
#pragma unroll
    for (int k = 0; k < 4; k++) sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Each block reads all `count` pieces `passes` times, each from a place of its own on: the bandwidth between SMs and L2, where the
// L2 holds them and the L1 does not. One block an SM; `count` is a multiple of four times the threads of a block.
extern "C" __global__ void __launch_bounds__(1024) resident(const uint4* data, u64 count, int passes, unsigned* out) {
  u64 first = count / gridDim.x * blockIdx.x;
  first -= first % blockDim.x;
  unsigned sum = 0;
  for (int pass = 0; pass < passes; pass++) {
    for (u64 i = threadIdx.x; i < count; i += 4 * blockDim.x) {
      uint4 v[4];
#pragma unroll
      for (int k = 0; k < 4; k++) {
        u64 place = first + i + k * blockDim.x;
        v[k] = from_l2(data + (place < count ? place : place - count));
      }
#pragma unroll
      for (int k = 0; k < 4; k++) sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
  }
  out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
