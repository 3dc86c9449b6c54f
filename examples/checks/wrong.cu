// Five kernels, each with one mistake that `warpsight check` finds (docs/reference/check.md). Blocks of 128 threads.

// Each thread reads what its neighbour in another warp may not have written yet.
__global__ void race(const float *in, float *out)
{
    __shared__ float tile[128];
    tile[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
    // __syncthreads() is missing
    out[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
}

__device__ __forceinline__ void store(float *out, int i, float value)
{
    out[i] = value;
}

// The last block has threads past the end of the array.
__global__ void past_the_end(float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) // < n
        store(out, i, 1.0f);
}

// The sums of a block are not set to zero first.
__global__ void unwritten(const float *in, float *out)
{
    __shared__ float sums[128];
    for (int k = 0; k < 4; k++)
        sums[threadIdx.x] += in[128 * k + threadIdx.x];
    out[threadIdx.x] = sums[threadIdx.x];
}

// The threads past the end do not come to the barrier, but come to the next one.
__global__ void divergent_barrier(const float *in, float *out, int n)
{
    __shared__ float tile[128];
    tile[threadIdx.x] = 0.0f;
    if (threadIdx.x < n) {
        tile[threadIdx.x] = in[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = tile[n - 1 - threadIdx.x];
    }
    __syncthreads();
    if (threadIdx.x == 0)
        out[n - 1] += tile[127];
}

// Which block comes last depends on the order of the blocks.
__global__ void last_one_wins(int *out)
{
    if (threadIdx.x == 0)
        *out = blockIdx.x;
}
