// A time loop: five kernels a step, arguments 1 and 2: steps, elements.
#include <cstdio>
#include <cstdlib>

__global__ void stencil(const float *in, float *out, int n, int step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1)
        out[i] = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1] + 1e-6f * step;
}

__global__ void add(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

__global__ void sum(const float *x, float *sums, int n)
{
    __shared__ float part[256];
    int t = threadIdx.x;
    float value = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256)
        value += x[i];
    part[t] = value;
    __syncthreads();
    for (int k = 128; k; k >>= 1) {
        if (t < k)
            part[t] += part[t + k];
        __syncthreads();
    }
    if (!t)
        sums[blockIdx.x] = part[0];
}

__global__ void scale(float *x, const float *sum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= 1.0f / (1.0f + 1e-9f * *sum);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 100, n = argc > 2 ? atoi(argv[2]) : 65536, blocks = (n + 255) / 256;
    float *from, *to, *y, *sums, *total, result;
    cudaMalloc((void **)&from, 4 * n);
    cudaMalloc((void **)&to, 4 * n);
    cudaMalloc((void **)&y, 4 * n);
    cudaMalloc((void **)&sums, 4 * 128);
    cudaMalloc((void **)&total, 4);
    cudaMemset(from, 0, 4 * n);
    cudaMemset(to, 0, 4 * n);
    cudaMemset(y, 0, 4 * n);
    for (int step = 0; step < steps; step++) {
        stencil<<<blocks, 256>>>(from, to, n, step);
        add<<<blocks, 256>>>(0.5f, to, y, n);
        sum<<<128, 256>>>(y, sums, n);
        sum<<<1, 256>>>(sums, total, 128);
        scale<<<blocks, 256>>>(y, total, n);
        float *other = from;
        from = to;
        to = other;
    }
    cudaMemcpy(&result, total, 4, cudaMemcpyDeviceToHost);
    printf("%g\n", result);
}
