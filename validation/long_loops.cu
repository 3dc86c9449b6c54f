// Launches of 10 to 30 waves on a small GPU whose warps are in one long loop: the kernels of the second table of sampling.md.
// The sizes are in sampling.py.

// One thread computes one element of C = A B; a warp reads one element of A and a row of B. Block 32 x 8.
extern "C" __global__ void product(int inner, int columns, const float *a, const float *b, float *c)
{
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < inner; ++k)
        sum += a[row * inner + k] * b[k * columns + column];
    c[row * columns + column] = sum;
}

// The same with tiles of 16 x 16 in shared memory. Block 16 x 16.
extern "C" __global__ void product_tiled(int inner, int columns, const float *a, const float *b, float *c)
{
    __shared__ float tile_a[16][16], tile_b[16][17];
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int first = 0; first < inner; first += 16) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * inner + first + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * columns + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    c[row * columns + column] = sum;
}

// One thread sums a row of a matrix: neighbours read addresses that lie a row apart. Block 32.
extern "C" __global__ void rows(int inner, const float *a, const float *x, float *y)
{
    int row = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < inner; ++k)
        sum += a[row * inner + k] * x[k];
    y[row] = sum;
}

// Blocks of different lengths, which repeat: every fourth one takes twice as many iterations as the others. Block 256.
extern "C" __global__ void uneven(int inner, const float *table, float *y)
{
    int i = blockIdx.x * 256 + threadIdx.x, laps = blockIdx.x % 4 == 3 ? 2 * inner : inner;
    float sum = 0;
    for (int k = 0; k < laps; ++k)
        sum = sum * 0.5f + table[k * 64 + i % 64];
    y[i] = sum;
}

// C = A' B: a warp reads a row of each matrix. Block 32 x 8.
extern "C" __global__ void product_transposed(int inner, int rows, int columns, const float *a, const float *b, float *c)
{
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < inner; ++k)
        sum += a[k * rows + row] * b[k * columns + column];
    c[row * columns + column] = sum;
}

// The force of all bodies on each, read from memory as a float4. Block 128.
extern "C" __global__ void bodies(int count, const float4 *body, float *force)
{
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 own = body[i % count];
    float sum = 0;
    for (int k = 0; k < count; ++k) {
        float4 other = body[k];
        float x = other.x - own.x, y = other.y - own.y, z = other.z - own.z;
        sum += other.w * rsqrtf(x * x + y * y + z * z + 0.01f);
    }
    force[i] = sum;
}

// In every other iteration half of the lanes are idle. Block 256.
extern "C" __global__ void divergent(int inner, const float *a, const float *x, float *y)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < inner; ++k) {
        sum += x[k];
        if ((k + threadIdx.x) % 2 == 0)
            sum += a[(k * 4096 + i) % (1 << 22)];
    }
    y[i] = sum;
}

// A filter of many taps along a signal, one output for each thread. Block 256.
extern "C" __global__ void filter(int taps, const float *signal, const float *tap, float *out)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < taps; ++k)
        sum += signal[i + k] * tap[k];
    out[i] = sum;
}
