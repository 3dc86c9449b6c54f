// Long launches of independent blocks, of which few waves say how long they take, and one that reads in reverse what they leave.
#include <cstdio>
#include <vector>

__global__ void long_one(const float* in, float* out, int turns)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    for (int k = 0; k < turns; ++k) x = x * 0.5f + 1.0f;
    out[i] = x;
}

__global__ void reversed(const float* in, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[n - 1 - i];
}

int main()
{
    const int blocks = 8192, n = blocks * 64;
    std::vector<float> host(n, 3.0f);
    float *a, *b, *c;
    cudaMalloc(&a, n * sizeof(float));
    cudaMalloc(&b, n * sizeof(float));
    cudaMalloc(&c, n * sizeof(float));
    cudaMemcpy(a, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    long_one<<<blocks, 64>>>(a, b, 2048);
    reversed<<<blocks, 64>>>(b, c, n);
    cudaMemcpy(host.data(), c, n * sizeof(float), cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (float x : host) wrong += x != 2.0f;  // x = x / 2 + 1 goes to 2
    printf(wrong ? "%d wrong\n" : "right\n", wrong);
    return wrong != 0;
}
