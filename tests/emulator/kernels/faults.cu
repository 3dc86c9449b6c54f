// Kernels that do what a GPU would not allow. Tests name the lines, so keep them where they are.
#define I (blockIdx.x * blockDim.x + threadIdx.x)
__constant__ int fixed[4] = {1, 2, 3, 4};
__device__ int beyond_reach[3];

extern "C" __global__ void read_at(const int* a, int* out, long long at) {
    int v = (blockIdx.x == 2 && threadIdx.x == 37) ? a[at] : 0;  // line 7
    out[I] = v;
}
extern "C" __global__ void write_at(int* a, long long byte) {
    if (I == 40) *(int*)((char*)a + byte) = 1;  // line 11
}
extern "C" __global__ void null_pointer(int* unused) {
    int* p = (int*)(long long)(unused[0] - 1);
    *p = 5;  // line 15
}
extern "C" __global__ void write_constant(int* out, int at) {
    int* p = at < 100 ? (int*)fixed + at : out;
    *p = 7;  // line 19
}
extern "C" __global__ void shared_at(int* out, int at) {
    extern __shared__ int s[];
    if (threadIdx.x == 33) s[at] = 1;  // line 23
    __syncthreads();
    out[I] = s[threadIdx.x % 4];
}
extern "C" __global__ void local_at(int* out, int at) {
    int a[8];
    for (int k = 0; k < 8; k++) a[k] = out[k];
    a[(at + threadIdx.x) * 8] = 3;  // line 30
    out[I] = a[out[0] & 7];
}
extern "C" __global__ void stops(int* out, int limit) {
    out[I] = 1;
    if ((int)I > limit) __trap();  // line 35
}
extern "C" __global__ void endless(int* out, int step) {
    int i = 1;
    while (i != 0) i += step;  // never with an even step
    out[I] = i;
}
extern "C" __global__ void atomic_at(float* a, int at) { atomicAdd(a + at, 1.0f); }  // line 42
extern "C" __global__ void first_of(const int* a, int* out) { out[I] = a ? 1 : 0; if (I == 999) out[0] = a[0]; }
extern "C" __global__ void reads_nothing(const int* a, int* out) { out[I] = a[0]; }  // line 44
extern "C" __global__ void vector_at(const float4* a, float4* out, int byte) { out[I] = *(const float4*)((const char*)a + byte); }  // line 45
extern "C" __global__ void writes_then_fails(int* out, int n) {
    out[I] = 5;
    if (blockIdx.x == 1) out[n + I] = 5;  // line 48
}
