// Small kernels for the emulator's tests: memory spaces, atomics, exchange between lanes, and whole algorithms.
#define I (blockIdx.x * blockDim.x + threadIdx.x)
typedef unsigned long long u64;

__constant__ float table[8] = {1.5f, -2.0f, 3.25f, 0.0f, 10.0f, -0.5f, 7.0f, 8.0f};
__constant__ int offsets[4];  // zero
__device__ int counters[4] = {100, 200, 300, 400};
__device__ int* pointer = &counters[2];
__device__ const char* text = "warp";
struct Pair { short a; double b; char c; };
__device__ Pair pairs[2] = {{-3, 2.5, 'x'}, {4, -1.25, 'y'}};

extern "C" __global__ void module_data(float* out, int* ints) {
    int i = I;
    out[i] = table[i % 8] + offsets[i % 4] + (float)pairs[i & 1].b;
    ints[i] = counters[i % 4] * 1000 + text[i % 4] + pairs[i & 1].a + pairs[i & 1].c;
    __syncthreads();
    if (i == 5) { pointer[1] = 77; pointer = counters; counters[0] += 1; }
    __syncthreads();
    if (i == 6) { ints[i] = counters[3] + pointer[0]; }
}

struct Settings { int n; float scale; double shift; short k[3]; const float* extra; };
extern "C" __global__ void by_value(Settings s, float* out, char flag) {
    int i = I;
    if (i < s.n) out[i] = s.scale * i + (float)s.shift + s.k[i % 3] + (flag ? 0.5f : 0.0f);
}

extern "C" __global__ void two_shared(const float* in, float* out, int n) {
    __shared__ float fixed[64];
    __shared__ char small[5];
    extern __shared__ float dynamic[];
    int t = threadIdx.x;
    fixed[t] = in[I]; if (t < 5) small[t] = 'a' + t;
    for (int k = t; k < n; k += 64) dynamic[k] = k;
    __syncthreads();
    out[I] = fixed[63 - t] + dynamic[(t * 7) % n] + small[t % 5];
}

extern "C" __global__ void local_array(const int* in, int* out) {
    int i = I, a[24];
    for (int k = 0; k < 24; k++) a[k] = k * k + i;
    a[in[i] % 24] = -1;
    int* p = (in[i] & 1) ? a + 3 : a;  // generic pointer into local memory
    p[in[i] % 7] += 1000;
    int s = 0;
    for (int k = 0; k < 24; k++) s = s * 3 + a[(k * in[i]) % 24];
    out[i] = s;
}

// The pointer is to shared memory in even blocks and to global memory in odd ones.
extern "C" __global__ void generic_pointer(int* scratch, int* out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    int* p = (blockIdx.x & 1) ? scratch + 64 * blockIdx.x : s;
    p[t] = t * 3;
    __syncthreads();
    atomicAdd(&p[t / 2], t);
    __syncthreads();
    out[I] = p[63 - t];
}
// One access of a warp reaches device, shared and local memory; one atomic device and shared memory.
extern "C" __global__ void mixed_pointer(int* scratch, float* sums, int* out) {
    __shared__ int s[64];
    __shared__ float f[16];
    int t = threadIdx.x, l[4];
    s[t] = 100 * t;
    if (t < 16) f[t] = 0;
    for (int k = 0; k < 4; k++) l[k] = 10000 * k + t;
    __syncthreads();
    int* p = t % 3 == 0 ? scratch + t : t % 3 == 1 ? s + t : l + (t & 3);
    *p += 7;
    float* q = ((t & 1) ? sums : f) + t / 4;
    float before = atomicAdd(q, 1.0f);
    __syncthreads();
    out[4 * t] = *p; out[4 * t + 1] = s[t]; out[4 * t + 2] = l[t % 4]; out[4 * t + 3] = (int)before * 10 + (int)f[t / 4];
}

extern "C" __global__ void narrow(const signed char* c, const unsigned char* u, const short* s, const unsigned short* v, const bool* b, int* out) {
    int i = I; int* o = out + 6 * i;
    o[0] = c[i]; o[1] = u[i]; o[2] = s[i]; o[3] = v[i]; o[4] = b[i] ? 5 : -5; o[5] = c[i] * s[i];
}
extern "C" __global__ void narrow_stores(const int* in, signed char* c, short* s, bool* b) {
    int i = I; c[i] = in[i]; s[i] = in[i]; b[i] = in[i] & 1;
}
extern "C" __global__ void vectors(const float2* a, const float4* b, const int4* c, const uchar4* d, const double2* e, float4* out, double2* sums) {
    int i = I; float2 x = a[i]; float4 y = b[i]; int4 z = c[i]; uchar4 w = d[i]; double2 v = e[i];
    out[i] = make_float4(x.x + y.w, x.y - y.z, (float)(z.x + z.w), (float)(w.x - w.z) + z.y);
    sums[i] = make_double2(v.y, v.x);
}
extern "C" __global__ void read_only(const float* __restrict__ a, volatile float* v, float* __restrict__ out) {
    int i = I; v[i] = v[i] + 1; v[i] = v[i] * 2; out[i] = __ldg(a + i) + a[i + 1] + __ldcg(a + i);
}

template <class T> __device__ void int_atomics(T* m, T x, T* o) {
    o[0] = atomicAdd(m, x); o[1] = atomicMin(m + 1, x); o[2] = atomicMax(m + 2, x); o[3] = atomicAnd(m + 3, x | 0xf0); o[4] = atomicOr(m + 4, x & 0xff);
    o[5] = atomicXor(m + 5, x); o[6] = atomicExch(m + 6, x); o[7] = atomicCAS(m + 7, x, x + 1);
}
extern "C" __global__ void atomics_int(int* m, const int* x, int* o) { int_atomics<int>(m, x[I], o + 8 * I); }
extern "C" __global__ void atomics_u64(u64* m, const u64* x, u64* o) { int_atomics<u64>(m, x[I], o + 8 * I); }
extern "C" __global__ void atomics_shared(int* m, const int* x, int* o) {
    __shared__ int s[8];
    if (threadIdx.x < 8) s[threadIdx.x] = m[threadIdx.x];
    __syncthreads();
    int_atomics<int>(s, x[I], o + 8 * I);
    __syncthreads();
    if (threadIdx.x < 8) m[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void atomics_unsigned(unsigned* m, const unsigned* x, unsigned* o) {
    unsigned v = x[I]; o += 4 * I;
    o[0] = atomicInc(m, 7); o[1] = atomicDec(m + 1, 9); o[2] = atomicMin(m + 2, v); o[3] = atomicMax(m + 3, v);
}
extern "C" __global__ void atomics_float(float* f, double* d, const float* x, float* fo, double* dout, unsigned short* h) {
    __shared__ float s[2];
    if (threadIdx.x < 2) s[threadIdx.x] = 0;
    __syncthreads();
    fo[2 * I] = atomicAdd(f, x[I]); dout[I] = atomicAdd(d, (double)x[I]); fo[2 * I + 1] = atomicExch(f + 1, x[I]);
    atomicAdd(&s[threadIdx.x & 1], x[I]);
    if (threadIdx.x == 3) atomicCAS(h, (unsigned short)4, (unsigned short)1234);
    __syncthreads();
    if (threadIdx.x < 2) f[2 + threadIdx.x] = s[threadIdx.x];
}
// A lock-free maximum: the loop that CUDA programmers write around atomicCAS.
extern "C" __global__ void cas_loop(int* m, const int* x) {
    int v = x[I], old = *m, seen;
    do { seen = old; if (seen >= v) break; old = atomicCAS(m, seen, v); } while (old != seen);
}

extern "C" __global__ void shuffles(const int* in, int* out) {
    int v = in[I]; int* o = out + 12 * I; const unsigned all = ~0u; int lane = threadIdx.x & 31;
    o[0] = __shfl_sync(all, v, (lane * 7) & 31); o[1] = __shfl_sync(all, v, lane + 3, 8); o[2] = __shfl_sync(all, v, 5, 16);
    o[3] = __shfl_up_sync(all, v, 3); o[4] = __shfl_up_sync(all, v, 3, 8); o[5] = __shfl_up_sync(all, v, 1, 16);
    o[6] = __shfl_down_sync(all, v, 5); o[7] = __shfl_down_sync(all, v, 2, 8); o[8] = __shfl_down_sync(all, v, 15, 16);
    o[9] = __shfl_xor_sync(all, v, 11); o[10] = __shfl_xor_sync(all, v, 4, 8); o[11] = __shfl_xor_sync(all, v, 12, 16);
}
extern "C" __global__ void wide_shuffles(const double* in, double* out, const float* f, float* g) {
    out[I] = __shfl_down_sync(~0u, in[I], 1); g[I] = __shfl_xor_sync(~0u, f[I], 31);
}
extern "C" __global__ void votes(const int* in, unsigned* out) {
    int v = in[I]; unsigned* o = out + 8 * I;
    o[0] = __ballot_sync(~0u, v & 1); o[1] = __any_sync(~0u, v == 7); o[2] = __all_sync(~0u, v < 99); o[3] = __match_any_sync(~0u, v);
    int same; o[4] = __match_all_sync(~0u, v >> 5, &same); o[5] = same; o[6] = 0; o[7] = 0;
    if (v % 3 == 0) { unsigned m = __activemask(); o[6] = m; o[7] = __ballot_sync(m, v & 2); __syncwarp(m); }
}

extern "C" __global__ void block_sum(const float* in, double* out, int n) {
    __shared__ double partial[32];
    double s = 0;
    for (int i = I; i < n; i += gridDim.x * blockDim.x) s += in[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) partial[warp] = s;
    __syncthreads();
    if (warp == 0) {
        s = lane < blockDim.x / 32 ? partial[lane] : 0;
        for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
        if (lane == 0) atomicAdd(out, s);
    }
}
extern "C" __global__ void transpose(const float* in, float* out, int w, int h) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x; y = blockIdx.x * 16 + threadIdx.y;
    if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void prefix_sum(const int* in, int* out) {
    __shared__ int s[2][256];
    int t = threadIdx.x, from = 0;
    s[0][t] = in[I];
    __syncthreads();
    #pragma unroll 1
    for (int d = 1; d < 256; d <<= 1) {
        s[1 - from][t] = s[from][t] + (t >= d ? s[from][t - d] : 0);
        from = 1 - from;
        __syncthreads();
    }
    out[I] = s[from][t];
}
extern "C" __global__ void bitonic_sort(int* data) {
    __shared__ int s[1024];
    int t = threadIdx.x, *mine = data + 1024 * blockIdx.x;
    s[t] = mine[t]; s[t + 512] = mine[t + 512];
    #pragma unroll 1
    for (int k = 2; k <= 1024; k <<= 1)
        #pragma unroll 1
        for (int j = k >> 1; j; j >>= 1) {
            __syncthreads();
            int a = 2 * t - (t & (j - 1)), b = a + j;
            int x = s[a], y = s[b];
            if ((x > y) == ((a & k) == 0)) { s[a] = y; s[b] = x; }
        }
    __syncthreads();
    mine[t] = s[t]; mine[t + 512] = s[t + 512];
}
extern "C" __global__ void histogram(const unsigned char* in, int* bins, int n) {
    __shared__ int local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = I; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
