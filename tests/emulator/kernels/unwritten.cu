// Kernels that read memory before it is written, or might. Tests name the lines, so keep them where they are.
#include <cstdlib>
extern "C" __global__ void reads_shared(int *out, int from) {
    __shared__ int s[64];
    if (threadIdx.x >= from) s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];  // line 7
}
extern "C" __global__ void lacks_barrier(int *out, int barrier) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    if (barrier) __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];  // line 13
}
extern "C" __global__ void counts(int *out, int clear) {
    __shared__ int bins[8];
    if (clear && threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[threadIdx.x & 7], 1);  // line 19
    __syncthreads();
    if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
}
extern "C" __global__ void reads_vector(float4 *out, int parts) {
    __shared__ float4 s[32];
    float *f = (float *)&s[threadIdx.x];
    for (int k = 0; k < parts; k++) f[k] = k;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];  // line 28
}
extern "C" __global__ void reads_local(int *out, const int *at, int written) {
    int a[8];
    for (int k = 0; k < written; k++) a[at[k]] = k;
    out[threadIdx.x] = a[at[8 + threadIdx.x]];  // line 33
}
extern "C" __global__ void reads_heap(int *out, int what) {
    int *p = (int *)malloc(32);
    for (int k = 0; k < 8; k++) if (k != 5 || what != 1) p[k] = k;
    int sum = 0;
    for (int k = 0; k < 8; k++) sum += p[k];  // line 39
    free(p);
    p = (int *)malloc(32);
    if (what != 2) p[3] = 3;
    out[threadIdx.x] = sum + p[3];  // line 43
    if (what == 3) atomicAdd(&p[4], 1);  // line 44
    free(p);
}
extern "C" __global__ void reads_beside(int *out, int at) {
    __shared__ int first[8]; __shared__ int second[8];
    if (threadIdx.x < 8) first[threadIdx.x] = 1;
    if (at > 100) second[threadIdx.x & 7] = 2;
    __syncthreads();
    out[threadIdx.x] = ((volatile int *)first)[at] + (at > 100 ? ((volatile int *)second)[0] : 0);  // line 52
}
extern "C" __global__ void uses_everything(float *out) {
    __shared__ float s[96];
    float a[4];
    for (int k = threadIdx.x; k < 96; k += blockDim.x) s[k] = k;
    __syncthreads();
    for (int k = 0; k < 4; k++) a[(k + blockIdx.x) & 3] = s[(threadIdx.x * 3 + k) % 96];
    atomicAdd(&s[threadIdx.x & 31], 1.0f);
    __syncthreads();
    float2 v = *(float2 *)&s[2 * (threadIdx.x & 31)];
    out[blockIdx.x * blockDim.x + threadIdx.x] = a[threadIdx.x & 3] + v.x + v.y + out[threadIdx.x];
}
