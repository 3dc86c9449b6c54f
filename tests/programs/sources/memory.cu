// Memory of every kind, checked on the host. Prints one line per check.
#include <cstdio>
#include <cstring>
#include <vector>

__constant__ float scale[2];
__device__ int counter = 7;
__device__ int table[4] = {1, 2, 3, 4};
__managed__ int shared_total = 5;

__global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] * scale[0] + b[i] * scale[1];
}

__global__ void count() { atomicAdd(&counter, table[threadIdx.x % 4]); }
__global__ void total(int n) { atomicAdd(&shared_total, n); }
__global__ void twice(int *data, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] *= 2;
}
__global__ void rows(char *data, size_t pitch, int width, int height)
{
    int x = threadIdx.x, y = blockIdx.x;
    if (x < width && y < height)
        data[y * pitch + x] = (char)(x + 3 * y);
}

static void say(const char *what, bool good) { printf("%s %s\n", what, good ? "good" : "BAD"); }

int main()
{
    const int n = 1000;
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; i++)
        a[i] = (float)i, b[i] = (float)(n - i);
    float factors[2] = {2.0f, 0.5f}, *da, *db, *dc;
    cudaMemcpyToSymbol(scale, factors, sizeof factors);
    cudaMalloc(&da, n * sizeof(float));
    cudaMalloc(&db, n * sizeof(float));
    cudaMalloc(&dc, n * sizeof(float));
    cudaMemcpy(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
    cudaMemcpy(c.data(), dc, n * sizeof(float), cudaMemcpyDeviceToHost);
    bool good = true;
    for (int i = 0; i < n; i++)
        good &= c[i] == a[i] * 2.0f + b[i] * 0.5f;
    say("vector", good);

    count<<<1, 64>>>();
    int found = 0;
    cudaMemcpyFromSymbol(&found, counter, sizeof found);
    say("symbol", found == 7 + 16 * 10);

    shared_total = 10;
    total<<<2, 32>>>(3);
    cudaDeviceSynchronize();
    say("managed", shared_total == 10 + 64 * 3);

    int *pinned, *mapped;
    cudaHostAlloc((void **)&pinned, 100 * sizeof(int), cudaHostAllocMapped);
    for (int i = 0; i < 100; i++)
        pinned[i] = i;
    cudaHostGetDevicePointer((void **)&mapped, pinned, 0);
    twice<<<1, 128>>>(mapped, 100);
    cudaDeviceSynchronize();
    say("pinned", pinned[99] == 198);

    std::vector<int> own(5000, 21);
    cudaHostRegister(own.data(), own.size() * sizeof(int), cudaHostRegisterMapped);
    cudaHostGetDevicePointer((void **)&mapped, own.data(), 0);
    twice<<<40, 128>>>(mapped, 5000);
    cudaDeviceSynchronize();
    bool registered = own[0] == 42 && own[4999] == 42;
    cudaHostUnregister(own.data());
    say("registered", registered && own[0] == 42 && own[4999] == 42);

    char *image, flat[20 * 30];
    size_t pitch;
    cudaMallocPitch((void **)&image, &pitch, 30, 20);
    cudaMemset2D(image, pitch, 1, 30, 20);
    rows<<<20, 32>>>(image, pitch, 29, 20);
    cudaMemcpy2D(flat, 30, image, pitch, 30, 20, cudaMemcpyDeviceToHost);
    say("pitched", flat[5 * 30 + 7] == 7 + 15 && flat[5 * 30 + 29] == 1);

    cudaExtent extent = make_cudaExtent(8, 3, 2);
    cudaPitchedPtr volume;
    cudaMalloc3D(&volume, extent);
    char box[48], back[48];
    for (int i = 0; i < 48; i++)
        box[i] = (char)i;
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(box, 8, 8, 3);
    copy.dstPtr = volume;
    copy.extent = extent;
    copy.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&copy);
    copy.srcPtr = volume;
    copy.dstPtr = make_cudaPitchedPtr(back, 8, 8, 3);
    copy.kind = cudaMemcpyDeviceToHost;
    cudaMemcpy3D(&copy);
    say("volume", !memcmp(box, back, 48));

    size_t before, after, whole;
    cudaMemGetInfo(&before, &whole);
    cudaFree(da);
    cudaMemGetInfo(&after, &whole);
    say("released", after - before == n * sizeof(float));
    float *again;
    cudaMalloc(&again, n * sizeof(float));
    say("reused", again == da);
    return 0;
}
