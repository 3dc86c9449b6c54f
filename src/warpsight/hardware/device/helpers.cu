// Kernels of ours around a measured one: what a launch costs, what the clock is, and caches that hold nothing of it.
typedef unsigned long long u64;

// A launch that does nothing.
extern "C" __global__ void warpsight_empty() {}

static __device__ __forceinline__ u64 timer() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) : : "memory");
  return now;
}

static __device__ __forceinline__ u64 clock_now() {
  u64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) : : "memory");
  return now;
}

// Spins for `nanoseconds`, at least. out[0] are the SM's cycles meanwhile, out[1] the nanoseconds. The timer moves in steps, up to a
// microsecond wide: both are read where it steps. One thread.
extern "C" __global__ void warpsight_clock(u64* out, u64 nanoseconds) {
  u64 before = timer(), start = before, end, now;
  while (start == before) start = timer();
  u64 from = clock_now();
  do end = timer(); while (end < start + nanoseconds);
  now = end;
  while (now == end) now = timer();
  u64 to = clock_now();
  out[0] = to - from;
  out[1] = now - start;
}

// Reads `count` pieces of 16 bytes, past the L1: what the L2 held before is written to DRAM and gone, and what it holds then is clean.
// The sum is stored where it cannot be, so that no load is dropped.
extern "C" __global__ void warpsight_sweep(const uint4* data, u64 count, unsigned* out) {
  unsigned sum = 0;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (u64)gridDim.x * blockDim.x) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(data + i) : "memory");
    sum |= v.x | v.y | v.z | v.w;
  }
  if (sum) out[0] = sum;
}
