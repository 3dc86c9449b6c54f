// Small kernels for the emulator's tests: arithmetic and types. One output column for each expression.
#include <cuda_fp16.h>
#define I (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void ints(const int* a, const int* b, int* out) {
    int i = I, x = a[i], y = b[i]; int* o = out + 12 * i;
    o[0] = x + y; o[1] = x - y; o[2] = x * y; o[3] = x / y; o[4] = x % y; o[5] = x << (y & 31); o[6] = x >> (y & 31);
    o[7] = min(x, y); o[8] = max(x, y); o[9] = abs(x); o[10] = __mulhi(x, y); o[11] = x / 7 + x % 10;
}
extern "C" __global__ void uints(const unsigned* a, const unsigned* b, unsigned* out) {
    int i = I; unsigned x = a[i], y = b[i]; unsigned* o = out + 8 * i;
    o[0] = x / y; o[1] = x % y; o[2] = x >> (y & 31); o[3] = min(x, y); o[4] = max(x, y); o[5] = __umulhi(x, y); o[6] = x / 10; o[7] = x % 1000;
}
extern "C" __global__ void longs(const long long* a, const long long* b, long long* out) {
    int i = I; long long x = a[i], y = b[i]; long long* o = out + 10 * i;
    o[0] = x + y; o[1] = x * y; o[2] = x / y; o[3] = x % y; o[4] = x >> (y & 63); o[5] = x << (y & 63); o[6] = __mul64hi(x, y);
    o[7] = (unsigned long long)x / (unsigned long long)y; o[8] = (unsigned long long)x % (unsigned long long)y; o[9] = max(x, y) ^ min(x, -y);
}
extern "C" __global__ void bits(const unsigned* a, const unsigned* b, unsigned* out) {
    int i = I; unsigned x = a[i], y = b[i]; unsigned* o = out + 14 * i;
    unsigned long long w = ((unsigned long long)x << 32) | y;
    o[0] = __popc(x); o[1] = __clz(x); o[2] = __brev(x); o[3] = __ffs(x); o[4] = __byte_perm(x, y, 0x7531); o[5] = __funnelshift_l(x, y, y);
    o[6] = __funnelshift_rc(x, y, y); o[7] = __popcll(w); o[8] = __clzll(w); o[9] = __ffsll(w); o[10] = (x >> 5) & 0x7ff;
    o[11] = ((int)(x << 9)) >> 20; o[12] = (x & ~0xff00u) | ((y & 0xff) << 8); o[13] = (x & y) ^ (~x | y);
}
extern "C" __global__ void floats(const float* a, const float* b, float* out) {
    int i = I; float x = a[i], y = b[i]; float* o = out + 16 * i;
    o[0] = x + y; o[1] = x - y; o[2] = x * y; o[3] = x / y; o[4] = fmaf(x, y, x); o[5] = sqrtf(fabsf(x)); o[6] = fminf(x, y); o[7] = fmaxf(x, y);
    o[8] = floorf(x); o[9] = ceilf(x); o[10] = rintf(x); o[11] = truncf(x); o[12] = copysignf(x, y); o[13] = -fabsf(y); o[14] = 1.0f / y; o[15] = x > y ? x : 2 * y;
}
extern "C" __global__ void special(const float* a, float* out) {
    int i = I; float x = a[i]; float* o = out + 12 * i;
    o[0] = expf(x); o[1] = logf(x); o[2] = sinf(x); o[3] = cosf(x); o[4] = tanhf(x); o[5] = powf(x, 1.7f); o[6] = rsqrtf(x); o[7] = cbrtf(x);
    o[8] = atanf(x); o[9] = log2f(x); o[10] = exp2f(x); o[11] = erff(x);
}
// Arguments so large that sinf reduces them with a table in constant memory and an array in local memory.
extern "C" __global__ void large_angles(const float* a, float* out) { int i = I; out[i] = sinf(a[i]); }
extern "C" __global__ void fast_special(const float* a, float* out) {
    int i = I; float x = a[i]; float* o = out + 4 * i;
    o[0] = __expf(x); o[1] = __logf(x); o[2] = __sinf(x); o[3] = __fdividef(x, 3.0f);
}
extern "C" __global__ void doubles(const double* a, const double* b, double* out) {
    int i = I; double x = a[i], y = b[i]; double* o = out + 12 * i;
    o[0] = x + y; o[1] = x * y; o[2] = x / y; o[3] = fma(x, y, y); o[4] = sqrt(fabs(x)); o[5] = floor(x); o[6] = fmin(x, y); o[7] = rint(x);
    o[8] = exp(x); o[9] = log(fabs(x)); o[10] = rsqrt(fabs(x)); o[11] = tanh(x);
}
extern "C" __global__ void directed(const float* a, const float* b, const double* d, float* out, double* wide) {
    int i = I; float x = a[i], y = b[i]; float* o = out + 12 * i; double* w = wide + 4 * i;
    o[0] = __fadd_rz(x, y); o[1] = __fadd_rd(x, y); o[2] = __fadd_ru(x, y); o[3] = __fmul_rz(x, y); o[4] = __fmul_ru(x, y); o[5] = __fmaf_rd(x, y, x);
    o[6] = __fdiv_rz(x, y); o[7] = __fsqrt_rd(fabsf(x)); o[8] = __frcp_ru(y); o[9] = __double2float_rd(d[i]); o[10] = __double2float_ru(d[i]);
    o[11] = __int2float_rz(__float_as_int(x));
    w[0] = __dadd_rd(d[i], y); w[1] = __dmul_ru(d[i], d[i]); w[2] = __ddiv_rz(d[i], 3.0); w[3] = __ll2double_ru(__double_as_longlong(d[i]));
}
extern "C" __global__ void to_ints(const float* a, const double* d, int* out, long long* wide) {
    int i = I; float x = a[i]; int* o = out + 10 * i; long long* w = wide + 4 * i;
    o[0] = (int)x; o[1] = (unsigned)x; o[2] = __float2int_rn(x); o[3] = __float2int_rd(x); o[4] = __float2int_ru(x); o[5] = (int)d[i]; o[6] = (unsigned)d[i];
    o[7] = __double2int_rn(d[i]); o[8] = (short)(int)x; o[9] = (unsigned char)(int)x;
    w[0] = (long long)x; w[1] = (unsigned long long)d[i]; w[2] = __double2ll_rn(d[i]); w[3] = __float2ull_ru(x);
}
extern "C" __global__ void from_ints(const int* a, const long long* b, float* out, double* wide) {
    int i = I; float* o = out + 6 * i; double* w = wide + 4 * i;
    o[0] = a[i]; o[1] = (unsigned)a[i]; o[2] = b[i]; o[3] = (unsigned long long)b[i]; o[4] = (short)a[i]; o[5] = (unsigned char)a[i];
    w[0] = a[i]; w[1] = (unsigned)a[i]; w[2] = b[i]; w[3] = (unsigned long long)b[i];
}
extern "C" __global__ void halves(const __half* a, const __half* b, __half* out, float* wide, const double* d) {
    int i = I; __half x = a[i], y = b[i]; __half* o = out + 12 * i; float* w = wide + 4 * i;
    o[0] = __hadd(x, y); o[1] = __hsub(x, y); o[2] = __hmul(x, y); o[3] = __hfma(x, y, x); o[4] = __hmin(x, y); o[5] = __hmax(x, y); o[6] = __habs(x);
    o[7] = __hneg(y); o[8] = __hlt(x, y) ? x : y; o[9] = __double2half(d[i]); o[10] = __float2half((float)d[i]); o[11] = __int2half_rn(i * 977);
    w[0] = __half2float(x); w[1] = __hgt(x, y); w[2] = __hne(x, y); w[3] = __half2int_rz(x);
}
extern "C" __global__ void half_pairs(const __half2* a, const __half2* b, __half2* out, float* wide) {
    int i = I; __half2 x = a[i], y = b[i]; __half2* o = out + 6 * i; float* w = wide + 2 * i;
    o[0] = __hadd2(x, y); o[1] = __hmul2(x, y); o[2] = __hfma2(x, y, x); o[3] = __hneg2(x); o[4] = __hmax2(x, y); o[5] = __hlt2(x, y);
    float2 f = __half22float2(x); w[0] = f.x + 1; w[1] = __low2float(y) + __high2float(x);
}
extern "C" __global__ void dots(const int* a, const int* b, int* out) {
    int i = I, x = a[i], y = b[i]; int* o = out + 6 * i;
    o[0] = __dp4a(x, y, i); o[1] = __dp4a((unsigned)x, (unsigned)y, (unsigned)i); o[2] = __dp2a_lo(x, y, i); o[3] = __dp2a_hi((unsigned)x, (unsigned)y, 1u);
    o[4] = __fns(x, y & 31, (x >> 7) % 5 - 2); o[5] = __sad(x, y, 3);
}
