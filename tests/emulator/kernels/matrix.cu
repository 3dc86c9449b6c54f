// Matrix products of 64x64x64 on tensor cores: by <mma.h>, and by mma.sync with ldmatrix in inline PTX.
#include <mma.h>

using namespace nvcuda;

constexpr int N = 64;

// One warp makes a row of tiles. `Skew` keeps the rows of shared memory in different banks.
template <typename T, typename Sum, int M, int K, int Skew, typename LayoutB>
__device__ void multiply_tiles(const T *a, const T *b, Sum *c) {
    constexpr int Columns = 256 / M;
    __shared__ __align__(32) T sa[N * (N + Skew)];
    __shared__ __align__(32) T sb[N * (N + Skew)];
    for (int i = threadIdx.x; i < N * N; i += blockDim.x) {
        sa[i / N * (N + Skew) + i % N] = a[i];
        sb[i / N * (N + Skew) + i % N] = b[i];
    }
    __syncthreads();
    constexpr bool by_column = std::is_same<LayoutB, wmma::col_major>::value;
    for (int tile = threadIdx.x / 32; tile < N / M * (N / Columns); tile += blockDim.x / 32) {
        int row = tile / (N / Columns) * M, column = tile % (N / Columns) * Columns;
        wmma::fragment<wmma::accumulator, M, Columns, K, Sum> sum;
        wmma::fill_fragment(sum, Sum(0));
        for (int k = 0; k < N; k += K) {
            wmma::fragment<wmma::matrix_a, M, Columns, K, T, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, M, Columns, K, T, LayoutB> fb;
            wmma::load_matrix_sync(fa, sa + row * (N + Skew) + k, N + Skew);
            // In column order B's columns lie in the rows of sb.
            wmma::load_matrix_sync(fb, by_column ? sb + column * (N + Skew) + k : sb + k * (N + Skew) + column, N + Skew);
            wmma::mma_sync(sum, fa, fb, sum);
        }
        for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] * Sum(2);
        wmma::store_matrix_sync(c + row * N + column, sum, N, wmma::mem_row_major);
    }
}

extern "C" __global__ void half_to_float(const half *a, const half *b, float *c) {
    multiply_tiles<half, float, 16, 16, 8, wmma::row_major>(a, b, c);
}

extern "C" __global__ void half_to_half(const half *a, const half *b, half *c) {
    multiply_tiles<half, half, 32, 16, 8, wmma::col_major>(a, b, c);
}

extern "C" __global__ void bytes(const signed char *a, const signed char *b, int *c) {
    multiply_tiles<signed char, int, 8, 16, 16, wmma::row_major>(a, b, c);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void brain_floats(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c) {
    multiply_tiles<__nv_bfloat16, float, 16, 16, 8, wmma::col_major>(a, b, c);
}

__device__ unsigned shared_address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// Rows of 128 bytes without a conflict: the eight 16-byte pieces of row r are exchanged by xor with r % 8.
__device__ half *place(half *tile, int row, int column) { return tile + row * N + ((column / 8 ^ row % 8) * 8 + column % 8); }

// C = A B with A and B by rows; each of 4 warps makes 16 rows. B's fragments come transposed.
extern "C" __global__ void by_hand(const half *a, const half *b, float *c) {
    __shared__ __align__(128) half sa[N * N], sb[N * N];
    for (int i = threadIdx.x; i < N * N / 8; i += blockDim.x) {
        *reinterpret_cast<uint4 *>(place(sa, i / 8, i % 8 * 8)) = reinterpret_cast<const uint4 *>(a)[i];
        *reinterpret_cast<uint4 *>(place(sb, i / 8, i % 8 * 8)) = reinterpret_cast<const uint4 *>(b)[i];
    }
    __syncthreads();
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
    float sums[8][4] = {};
    for (int k = 0; k < N; k += 16) {
        unsigned fa[4];
        unsigned from = shared_address(place(sa, row + lane % 16, k + lane / 16 * 8));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(from));
        for (int n = 0; n < 8; ++n) {
            unsigned fb[2];
            from = shared_address(place(sb, k + lane % 16, n * 8));
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(from));
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(sums[n][0]), "+f"(sums[n][1]), "+f"(sums[n][2]), "+f"(sums[n][3])
                         : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
        }
    }
    for (int n = 0; n < 8; ++n)
        for (int i = 0; i < 4; ++i) c[(row + lane / 4 + i / 2 * 8) * N + n * 8 + lane % 4 * 2 + i % 2] = 2 * sums[n][i];
}
#endif
