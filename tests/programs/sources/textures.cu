#include <cstdio>
#include <cstring>
__global__ void rows(cudaTextureObject_t t, float *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<float>(t, x + 0.5f, y + 0.5f);
}
__global__ void line(cudaTextureObject_t t, int *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    out[x] = tex1Dfetch<int>(t, x);
}
__global__ void add_one(cudaSurfaceObject_t s, int w) {
    int x = threadIdx.x, y = blockIdx.x;
    float v; surf2Dread(&v, s, x * 4, y); surf2Dwrite(v + 1, s, x * 4, y);
}
static float h[12 * 40], back[12 * 40]; static int li[64], lo[96];
static void good(const char *what, bool ok) { printf("%s %s\n", what, ok ? "good" : "BAD"); }
int main() {
    const int w = 40, hh = 12;
    for (int k = 0; k < w * hh; k++) h[k] = k * 0.5f;
    cudaArray_t a; auto d = cudaCreateChannelDesc<float>();
    cudaMallocArray(&a, &d, w, hh, cudaArraySurfaceLoadStore);
    cudaMemcpy2DToArray(a, 0, 0, h, w * 4, w * 4, hh, cudaMemcpyHostToDevice);
    cudaResourceDesc r; memset(&r, 0, sizeof r); r.resType = cudaResourceTypeArray; r.res.array.array = a;
    cudaTextureDesc td; memset(&td, 0, sizeof td); td.addressMode[0] = td.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t t = 0; cudaSurfaceObject_t s = 0;
    good("made", !cudaCreateTextureObject(&t, &r, &td, nullptr) && !cudaCreateSurfaceObject(&s, &r));
    float *out; cudaMalloc(&out, sizeof h);
    rows<<<dim3(2, hh), 32>>>(t, out, w, hh);
    cudaMemcpy(back, out, sizeof h, cudaMemcpyDeviceToHost);
    good("array", !memcmp(back, h, sizeof h));
    add_one<<<hh, w>>>(s, w);
    cudaMemcpy2DFromArray(back, w * 4, a, 0, 0, w * 4, hh, cudaMemcpyDeviceToHost);
    bool ok = true; for (int k = 0; k < w * hh; k++) ok &= back[k] == h[k] + 1;
    good("surface", ok);
    good("destroyed", !cudaDestroyTextureObject(t) && !cudaDestroySurfaceObject(s) && cudaDestroyTextureObject(t) == cudaErrorInvalidValue);
    cudaGetLastError();
    void *p; size_t pitch; cudaMallocPitch(&p, &pitch, w * 4, hh);
    cudaMemcpy2D(p, pitch, h, w * 4, w * 4, hh, cudaMemcpyHostToDevice);
    memset(&r, 0, sizeof r); r.resType = cudaResourceTypePitch2D; r.res.pitch2D.devPtr = p; r.res.pitch2D.desc = d;
    r.res.pitch2D.width = w; r.res.pitch2D.height = hh; r.res.pitch2D.pitchInBytes = pitch;
    cudaCreateTextureObject(&t, &r, &td, nullptr);
    rows<<<dim3(2, hh), 32>>>(t, out, w, hh);
    cudaMemcpy(back, out, sizeof h, cudaMemcpyDeviceToHost);
    good("pitched", !memcmp(back, h, sizeof h));
    for (int k = 0; k < 64; k++) li[k] = 3 * k - 7;
    int *q, *qo; cudaMalloc(&q, sizeof li); cudaMalloc(&qo, sizeof lo); cudaMemcpy(q, li, sizeof li, cudaMemcpyHostToDevice);
    memset(&r, 0, sizeof r); r.resType = cudaResourceTypeLinear; r.res.linear.devPtr = q; r.res.linear.sizeInBytes = sizeof li;
    r.res.linear.desc = cudaCreateChannelDesc<int>();
    cudaCreateTextureObject(&t, &r, &td, nullptr);
    line<<<3, 32>>>(t, qo, 96);
    cudaMemcpy(lo, qo, sizeof lo, cudaMemcpyDeviceToHost);
    ok = true; for (int k = 0; k < 96; k++) ok &= lo[k] == (k < 64 ? li[k] : 0);
    good("linear", ok);
    cudaResourceViewDesc v; memset(&v, 0, sizeof v);
    good("view refused", cudaCreateTextureObject(&t, &r, &td, &v) == cudaErrorNotSupported);
    return 0;
}
