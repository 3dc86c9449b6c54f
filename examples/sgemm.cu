// C = A B for square row-major FP32 matrices: the three steps that every guide to GPU programming takes.

// One thread computes one element and reads all its operands from memory. Any block; grid: n / block in x and y.
extern "C" __global__ void sgemm_naive(int n, const float *a, const float *b, float *c)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

// A block shares tiles of 32 x 32 through shared memory. Block 32 x 32; grid: n / 32 in x and y.
extern "C" __global__ void sgemm_tiled(int n, const float *a, const float *b, float *c)
{
    __shared__ float tile_a[32][32], tile_b[32][32];
    int column = blockIdx.x * 32 + threadIdx.x;
    int row = blockIdx.y * 32 + threadIdx.y;
    float sum = 0.0f;
    for (int first = 0; first < n; first += 32) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * n + first + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 32; ++k)
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// A block computes 128 x 128 elements, each thread 8 x 8 of them in registers: two groups of four rows and of four columns.
// Tiles are eight deep; the next ones are loaded while the product of these is computed. Block 256; grid: n / 128 in x and y.
extern "C" __global__ __launch_bounds__(256) void sgemm_regs(int n, const float *a, const float *b, float *c)
{
    __shared__ float tile_a[2][8][128], tile_b[2][8][128];
    int thread = threadIdx.x;
    int x = thread % 16 * 4, y = thread / 16 * 4;
    const float *from_a = a + (blockIdx.y * 128 + thread / 2) * n + thread % 2 * 4;
    const float *from_b = b + thread / 32 * n + blockIdx.x * 128 + thread % 32 * 4;
    float sums[8][8] = {};
    float4 next_a = *(const float4 *)from_a, next_b = *(const float4 *)from_b;
    for (int first = 0, now = 0; first < n; first += 8, now ^= 1) {
        float *store_a = &tile_a[now][thread % 2 * 4][thread / 2];
        store_a[0] = next_a.x;
        store_a[128] = next_a.y;
        store_a[256] = next_a.z;
        store_a[384] = next_a.w;
        *(float4 *)&tile_b[now][thread / 32][thread % 32 * 4] = next_b;
        __syncthreads();
        if (first + 8 < n) {
            next_a = *(const float4 *)(from_a + first + 8);
            next_b = *(const float4 *)(from_b + (first + 8) * n);
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            float rows[8], columns[8];
#pragma unroll
            for (int i = 0; i < 8; i += 4) {
                *(float4 *)(rows + i) = *(const float4 *)&tile_a[now][k][y + i * 16];
                *(float4 *)(columns + i) = *(const float4 *)&tile_b[now][k][x + i * 16];
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    sums[i][j] += rows[i] * columns[j];
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            int row = blockIdx.y * 128 + y + (i / 4) * 64 + i % 4, column = blockIdx.x * 128 + x + j * 16;
            *(float4 *)(c + row * n + column) = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
        }
}
