// Warpsight's micro-benchmarks: times what decides latencies, bandwidths, miss registers and the set index of a GPU, and writes CSV.
//
//   nvcc -O2 -arch=native -o microbenchmarks microbenchmarks.cu && ./microbenchmarks > timings.csv
//   warpsight calibrate timings.csv --like v100 -o mine.yaml
//
// The second command needs no GPU. For figures that hold still, lock the clocks first (nvidia-smi --lock-gpu-clocks). An argument
// chooses the device: ./microbenchmarks 1
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#include "kernels.cuh"

static const int kRuns = 5;
static const size_t kAlign = 1 << 20;
static const size_t kLine = 128;

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    cudaError_t error = (call);                                                                              \
    if (error != cudaSuccess) {                                                                              \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error));              \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

static int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

struct Machine {
  int sms;
  size_t l2;
  char* room;       // what the kernels read
  size_t room_bytes;
  u64* out;
  unsigned* sums;
  cudaEvent_t start, stop;
};

// Writes four times what the L2 holds, so that it has nothing of `room`; the L1s are emptied where a kernel begins.
static void flush(char* other, size_t bytes) {
  CHECK(cudaMemset(other, 1, bytes));
  CHECK(cudaDeviceSynchronize());
}

static u64 first_out(const Machine& m) {
  u64 cycles = 0;
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&cycles, m.out, sizeof cycles, cudaMemcpyDeviceToHost));
  return cycles;
}

// As many steps as make whole rounds, a multiple of 8, and enough that starting and ending count for nothing.
static int whole_rounds(int lines, int least) {
  int rounds = (least + lines - 1) / lines;
  while (rounds * (size_t)lines % 8) rounds++;
  return rounds * lines;
}

static void time_chase(const Machine& m, size_t stride, int lines) {
  if (kAlign + lines * stride > m.room_bytes) return;
  int warm = (lines + 7) / 8 * 8;
  int steps = lines <= 1 << 16 ? whole_rounds(lines, 2048) : 1 << 14;
  for (int run = 0; run < kRuns; run++) {
    chase<<<1, 32>>>(m.room, kAlign, stride, lines, warm, steps, m.out);
    printf("chase,%zu,%zu,%d,1,32,%llu,\n", lines * stride, stride, steps, first_out(m));
  }
}

static void time_chases(const Machine& m) {
  // lines side by side: finely around the sizes that L1s have, then by quarters up to several times the L2
  for (size_t size = 2048; size <= 8192; size += 2048) time_chase(m, kLine, (int)(size / kLine));
  for (size_t size = 12 << 10; size <= 320 << 10; size += 4 << 10) time_chase(m, kLine, (int)(size / kLine));
  for (size_t size = 384 << 10; size <= 4 * m.l2; size += size / 4 / kLine * kLine) time_chase(m, kLine, (int)(size / kLine));
  // lines that may meet in a set
  for (size_t apart = 2; apart <= 128; apart *= 2) {
    // a power of two meets in sets that are the low bits of an address, its neighbours where higher bits are folded in
    for (size_t stride = (apart - 1) * kLine; stride <= (apart + 1) * kLine; stride += kLine) {
      if (stride == kLine || (stride == 3 * kLine && apart == 2)) continue;
      for (int lines = 1; lines * stride <= kAlign && lines <= 1024; lines += lines < 32 ? 1 : lines / 16) time_chase(m, stride, lines);
    }
  }
}

static void time_misses(const Machine& m, char* other, size_t bytes) {
  for (int count = 1; count <= 512; count++) {
    for (int run = 0; run < 3; run++) {
      flush(other, bytes);
      misses<<<1, 32>>>(m.room, kAlign, kLine, count, m.out);
      printf("misses,%zu,%zu,%d,1,32,%llu,\n", count * kLine, kLine, count, first_out(m));
    }
  }
}

static double nanoseconds(const Machine& m) {
  float milliseconds = 0;
  CHECK(cudaGetLastError());
  CHECK(cudaEventSynchronize(m.stop));
  CHECK(cudaEventElapsedTime(&milliseconds, m.start, m.stop));
  return 1e6 * milliseconds;
}

static void time_streams(const Machine& m, char* other, size_t bytes) {
  const int threads[] = {256, 512, 1024};
  for (int each : threads) {
    for (int blocks = m.sms; blocks <= 8 * m.sms && blocks * each <= m.sms * 2048; blocks *= 2) {
      size_t piece = 64 * (size_t)blocks * each;  // bytes of one round of all threads
      for (int part = 1; part <= 4; part++) {
        size_t rounds = m.room_bytes * part / 4 / piece;
        if (!rounds) continue;
        for (int run = 0; run < kRuns; run++) {
          flush(other, bytes);
          CHECK(cudaEventRecord(m.start));
          stream<<<blocks, each>>>((const uint4*)m.room, rounds * piece / 16, m.sums);
          CHECK(cudaEventRecord(m.stop));
          printf("stream,%zu,16,1,%d,%d,,%.1f\n", rounds * piece, blocks, each, nanoseconds(m));
        }
      }
    }
  }
}

static void time_residents(const Machine& m) {
  const int threads[] = {256, 512, 1024};
  size_t footprint = m.l2 / 4 < (1 << 20) ? m.l2 / 4 : 1 << 20;
  for (int each : threads) {
    size_t size = footprint / (64 * each) * (64 * each);
    for (int passes = 8; passes <= 32; passes += 8) {
      for (int run = 0; run < kRuns; run++) {
        CHECK(cudaEventRecord(m.start));
        resident<<<m.sms, each>>>((const uint4*)m.room, size / 16, passes, m.sums);
        CHECK(cudaEventRecord(m.stop));
        printf("resident,%zu,16,%d,%d,%d,,%.1f\n", size * passes * m.sms, passes, m.sms, each, nanoseconds(m));
      }
    }
  }
}

int main(int argc, char** argv) {
  int device = argc > 1 ? atoi(argv[1]) : 0;
  cudaDeviceProp properties;
  CHECK(cudaSetDevice(device));
  CHECK(cudaGetDeviceProperties(&properties, device));
  Machine m;
  m.sms = properties.multiProcessorCount;
  m.l2 = properties.l2CacheSize;
  m.room_bytes = 8 * m.l2 + (256 << 20);
  size_t flush_bytes = 4 * m.l2;
  char* other = nullptr;
  CHECK(cudaMalloc(&m.room, m.room_bytes));
  CHECK(cudaMalloc(&other, flush_bytes));
  CHECK(cudaMalloc(&m.out, 1024 * sizeof(u64)));
  CHECK(cudaMalloc(&m.sums, sizeof(unsigned) * m.sms * 2048));
  CHECK(cudaMemset(m.room, 0, m.room_bytes));
  CHECK(cudaEventCreate(&m.start));
  CHECK(cudaEventCreate(&m.stop));
  printf("# device: %s, compute capability %d.%d, %d SMs, up to %d kHz, L2 %zu bytes\n", properties.name, properties.major,
         properties.minor, m.sms, attribute(cudaDevAttrClockRate, device), m.l2);
  printf("benchmark,bytes,stride,count,blocks,threads,cycles,nanoseconds\n");
  time_residents(m);  // also brings the clocks up
  time_streams(m, other, flush_bytes);
  time_misses(m, other, flush_bytes);
  time_chases(m);
  return 0;
}
