// C = A B in FP16 with 32-bit sums (16-bit ones with HALF_SUMS) on tensor cores: A [M, K], B [K, N] and C [M, N] by rows.
//
// A block of WARPS_M x WARPS_N warps computes a tile of TILE_M x TILE_N. Tiles of A and B, TILE_K deep, come by asynchronous copies
// into a ring of STAGES buffers; 16-byte chunks are permuted (XOR with the row) so that no two of eight rows share banks. Blocks go
// in groups of 8 tile rows over the columns, so that those on the GPU at a time share tiles in the L2. The sums leave through
// shared memory, in stores of 16 bytes. M, N and K are multiples of the tile.
#include <cuda_fp16.h>

constexpr int WARPS = WARPS_M * WARPS_N, THREADS = 32 * WARPS, GROUP = 8, CHUNK = 8;
constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N, ROWS = WARP_M / 16, COLUMNS = WARP_N / 8;
constexpr int A_CHUNKS = TILE_K / CHUNK, B_CHUNKS = TILE_N / CHUNK, A_BYTES = 2 * TILE_M * TILE_K, B_BYTES = 2 * TILE_K * TILE_N;
constexpr int PADDED = TILE_N + CHUNK;
#ifdef HALF_SUMS
constexpr int REGISTERS = 2;
#else
constexpr int REGISTERS = 4;
#endif

// The permutation of the chunks of a row, of which a tile has PER_ROW; rows that share 128 bytes are permuted alike.
template <int PER_ROW> __device__ int permutation(int row) {
  constexpr int SHARING = PER_ROW >= 8 ? 1 : 8 / PER_ROW;
  return row / SHARING % (PER_ROW >= 8 ? 8 : PER_ROW);
}

// A thread copies the same column of chunks of every STEP-th row; `from` and `to` are those of its first chunk, without permutation.
template <int HEIGHT, int PER_ROW> __device__ void copy_tile(unsigned to, const half* from, int stride) {
  constexpr int STEP = THREADS / PER_ROW;
  const int first = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW;
#pragma unroll
  for (int row = 0; row < HEIGHT; row += STEP) {
    const int chunk = column ^ permutation<PER_ROW>(STEP % 8 == 0 ? first : first + row);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + (row * PER_ROW + chunk) * 16), "l"(from + (size_t)row * stride));
  }
}

__device__ void multiply(unsigned* sum, const unsigned* a, const unsigned* b) {
#ifdef HALF_SUMS
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};"
      : "+r"(sum[0]), "+r"(sum[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ half2 two_of(const unsigned* sum, int row) {
#ifdef HALF_SUMS
  return *(const half2*)(sum + row);
#else
  return __floats2half2_rn(__uint_as_float(sum[2 * row]), __uint_as_float(sum[2 * row + 1]));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS) gemm(const half* A, const half* B, half* C, int M, int N, int K) {
  extern __shared__ __align__(128) half memory[];
  const unsigned a_tiles = (unsigned)__cvta_generic_to_shared(memory), b_tiles = a_tiles + STAGES * A_BYTES;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp % WARPS_M * WARP_M, warp_n = warp / WARPS_M * WARP_N;
  // the block's tile
  const int tiles_m = M / TILE_M, tiles_n = N / TILE_N, in_group = GROUP * tiles_n, top = blockIdx.x / in_group * GROUP;
  const int high = min(tiles_m - top, GROUP), number = blockIdx.x % in_group;
  const int block_m = (top + number % high) * TILE_M, block_n = number / high * TILE_N;
  // what the thread copies first
  const half* a_from = A + (size_t)(block_m + threadIdx.x / A_CHUNKS) * K + threadIdx.x % A_CHUNKS * CHUNK;
  const half* b_from = B + (size_t)(threadIdx.x / B_CHUNKS) * N + block_n + threadIdx.x % B_CHUNKS * CHUNK;
  const unsigned a_to = a_tiles + threadIdx.x / A_CHUNKS * A_CHUNKS * 16, b_to = b_tiles + threadIdx.x / B_CHUNKS * B_CHUNKS * 16;
  // what the lane reads first: of 16 rows, and of two chunks
  const int row = lane % 16, half_warp = lane / 16;
  const unsigned a_row = (warp_m + row) * A_CHUNKS * 16, b_row = row * B_CHUNKS * 16;
  const unsigned a_chunk = half_warp ^ permutation<A_CHUNKS>(row), b_chunk = warp_n / CHUNK ^ half_warp ^ permutation<B_CHUNKS>(row);

  unsigned sums[ROWS][COLUMNS][REGISTERS] = {};
  const int steps = K / TILE_K;
  int stage_in = 0, stage_out = 0, copied = 0;
  auto copy = [&]() {
    if (copied < steps) {
      copy_tile<TILE_M, A_CHUNKS>(a_to + stage_in * A_BYTES, a_from, K);
      copy_tile<TILE_K, B_CHUNKS>(b_to + stage_in * B_BYTES, b_from, N);
    }
    asm volatile("cp.async.commit_group;");
    ++copied;
    a_from += TILE_K;
    b_from += (size_t)TILE_K * N;
    stage_in = stage_in + 1 == STAGES ? 0 : stage_in + 1;
  };
#pragma unroll
  for (int step = 0; step < STAGES - 1; ++step) copy();
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2));
    __syncthreads();
    copy();
    const unsigned a_tile = a_tiles + stage_out * A_BYTES + a_row, b_tile = b_tiles + stage_out * B_BYTES + b_row;
    stage_out = stage_out + 1 == STAGES ? 0 : stage_out + 1;
#pragma unroll
    for (int k = 0; k < TILE_K; k += 16) {
      unsigned a[ROWS][4], b[COLUMNS][2];
#pragma unroll
      for (int i = 0; i < ROWS; ++i)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3])
                     : "r"(a_tile + (a_chunk ^ (k / CHUNK)) * 16 + 16 * i * A_CHUNKS * 16));
#pragma unroll
      for (int j = 0; j < COLUMNS; j += 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j + 1][0]), "=r"(b[j + 1][1])
                     : "r"(b_tile + (b_chunk ^ j) * 16 + k * B_CHUNKS * 16));
#pragma unroll
      for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) multiply(sums[i][j], a[i], b[j]);
    }
  }
  // through shared memory to C
  asm volatile("cp.async.wait_all;");
  __syncthreads();
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j)
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        half* to = memory + (warp_m + 16 * i + 8 * lower + lane / 4) * PADDED + warp_n + 8 * j + lane % 4 * 2;
        *(half2*)to = two_of(sums[i][j], lower);
      }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < TILE_M * TILE_N / CHUNK / THREADS; ++i) {
    const int chunk = threadIdx.x + i * THREADS, row = chunk / (TILE_N / CHUNK), column = chunk % (TILE_N / CHUNK) * CHUNK;
    *(float4*)(C + (size_t)(block_m + row) * N + block_n + column) = *(const float4*)(memory + row * PADDED + column);
  }
}
