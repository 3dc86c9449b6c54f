// Textures and surfaces by the functions of the CUDA runtime's headers.

extern "C" __global__ void linear_memory(cudaTextureObject_t t, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<float>(t, i - 5);
}

extern "C" __global__ void rotate(cudaTextureObject_t t, float4 *out, int width, int height, float c, float s) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float u = (x + 0.5f) / width - 0.5f, v = (y + 0.5f) / height - 0.5f;
    out[y * width + x] = tex2D<float4>(t, __fadd_rn(__fmul_rn(u, c), 0.5f - __fmul_rn(v, s)), __fadd_rn(__fmul_rn(v, c), 0.5f));
}

extern "C" __global__ void bytes(cudaTextureObject_t t, unsigned char *out, uchar4 *quads) {
    int i = threadIdx.x;
    uchar4 q = tex2D<uchar4>(t, i % 8, i / 8);
    out[i] = q.w;
    quads[i] = make_uchar4(q.z, q.y, q.x, q.w);
}

extern "C" __global__ void volume(cudaTextureObject_t t, cudaTextureObject_t layers, cudaTextureObject_t line, float *out) {
    int i = threadIdx.x;
    float x = 0.37f * i, y = 0.21f * i, z = 0.11f * i;
    out[3 * i] = tex3D<float>(t, x, y, z);
    out[3 * i + 1] = tex2DLayered<float>(layers, x, y, i % 3);
    out[3 * i + 2] = tex1D<float>(line, x);
}

extern "C" __global__ void gather(cudaTextureObject_t t, int4 *out) {
    int i = threadIdx.x;
    out[i] = tex2Dgather<int4>(t, 0.4f * i, 0.3f * i, 0);
}

extern "C" __global__ void sky(cudaTextureObject_t t, const float3 *rays, short *out) {
    float3 r = rays[threadIdx.x];
    out[threadIdx.x] = texCubemap<short>(t, r.x, r.y, r.z);
}

extern "C" __global__ void blur(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int sum = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            sum += surf2Dread<unsigned char>(from, x + dx, y + dy, cudaBoundaryModeZero);
    surf2Dwrite((unsigned char)(sum / 9), to, x, y);
}

extern "C" __global__ void layers(cudaSurfaceObject_t s, cudaSurfaceObject_t solid, cudaSurfaceObject_t line) {
    int i = threadIdx.x;
    surf2DLayeredwrite(make_float2(i, -i), s, 8 * (i % 4), i / 4 % 2, i / 8);
    long long v = surf3Dread<long long>(solid, 8 * (i % 4), i / 4 % 4, i / 16);
    surf3Dwrite(v * 3, solid, 8 * (i % 4), i / 4 % 4, i / 16);
    surf1Dwrite((short)(i - 7), line, 2 * i);
}

extern "C" __global__ void row(cudaTextureObject_t t, float *out, float step) {
    out[threadIdx.x] = tex2D<float>(t, step * threadIdx.x, 1.0f);
}
