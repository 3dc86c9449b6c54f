// Memory that a kernel allocates, which outlives it, and a grid that waits for all of its blocks.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>

__device__ int *kept[64];

__global__ void make() {
    int k = threadIdx.x + blockIdx.x * blockDim.x;
    kept[k] = (int *)malloc(4 * (k + 1));
    if (kept[k]) kept[k][k] = 10 * k;
}

__global__ void use(int *out) {
    int k = threadIdx.x + blockIdx.x * blockDim.x;
    out[k] = kept[k] ? kept[k][k] : -1;
    free(kept[k]);
}

__global__ void too_much(int *out) { *out = malloc(2 << 20) == nullptr; }

__global__ void sum_all(int *sums, int *out) {
    auto grid = cooperative_groups::this_grid();
    if (threadIdx.x == 0) sums[blockIdx.x] = blockIdx.x + 1;
    grid.sync();
    if (grid.thread_rank() == 0)
        for (int k = 0; k < (int)gridDim.x; k++) *out += sums[k];
}

int main() {
    int *out, back[64], *sums, total = 0;
    cudaMalloc(&out, sizeof back);
    cudaMalloc(&sums, sizeof back);
    cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 20);
    make<<<2, 32>>>();
    use<<<2, 32>>>(out);
    cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost);
    bool right = true;
    for (int k = 0; k < 64; k++) right &= back[k] == 10 * k;
    printf("heap %s\n", right ? "good" : "BAD");
    too_much<<<1, 1>>>(out);
    cudaMemcpy(back, out, 4, cudaMemcpyDeviceToHost);
    printf("limit %s\n", back[0] == 1 ? "good" : "BAD");
    for (int k = 0; k < 2; k++) {
        cudaMemset(out, 0, 4);
        void *arguments[] = {&sums, &out};
        cudaLaunchCooperativeKernel((void *)sum_all, dim3(5), dim3(64), arguments);
        cudaMemcpy(back, out, 4, cudaMemcpyDeviceToHost);
        total += back[0];
    }
    printf("grid %d\n", total);
    return cudaDeviceSynchronize();
}
