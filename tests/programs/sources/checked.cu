// Mistakes of a program, each on a line with its name in a comment; without an argument, what looks like some and is none.
#include <cstdio>
#include <unistd.h>
#include <sys/wait.h>

__global__ void sum(const int *in, int *out, int n)
{
    int i = threadIdx.x;
    if (i < n)
        out[i] = in[i] + 1; // kernel reads unwritten
}

__global__ void paint(cudaSurfaceObject_t surface)
{
    surf2Dwrite(1.0f, surface, threadIdx.x * 4, blockIdx.x);
}

__global__ void stop(int *out)
{
    if (*out == 7)
        __trap(); // ends the kernel
}

struct Buffer { // freed after main
    int *data = nullptr;
    ~Buffer() { cudaFree(data); }
};
static Buffer buffer;

static int good()
{
    int host[64] = {0}, *copy, *managed, *pitched;
    size_t pitch;
    cudaMalloc(&buffer.data, sizeof host);
    cudaMalloc(&copy, sizeof host);
    cudaMemcpy(buffer.data, host, 4 * 32, cudaMemcpyHostToDevice);
    cudaMemcpy(copy, buffer.data, sizeof host, cudaMemcpyDeviceToDevice); // takes half of it along, and nobody reads that
    cudaMallocManaged(&managed, sizeof host);
    for (int i = 0; i < 64; i++)
        managed[i] = i;
    sum<<<1, 64>>>(copy, managed, 32);
    cudaMallocPitch((void **)&pitched, &pitch, 100, 8);
    cudaMemset2D(pitched, pitch, 0, 100, 8);
    char rows[800];
    cudaMemcpy2D(rows, 100, pitched, pitch, 100, 8, cudaMemcpyDeviceToHost);
    cudaStreamQuery(0);
    cudaArray_t array;
    cudaChannelFormatDesc channel = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &channel, 32, 4, cudaArraySurfaceLoadStore);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &resource);
    paint<<<4, 32>>>(surface);
    float texels[128];
    cudaMemcpy2DFromArray(texels, 128, array, 0, 0, 128, 4, cudaMemcpyDeviceToHost);
    cudaDestroySurfaceObject(surface);
    cudaFreeArray(array);
    fflush(stdout);
    if (fork() == 0) {
        cudaFree(managed); // fails in a child, which is nobody's device
        exit(0);
    }
    wait(nullptr);
    cudaFree(pitched);
    cudaFree(managed);
    cudaFree(copy);
    return 0;
}

static int bad()
{
    int host[64] = {0}, *from, *to, *lost;
    cudaMalloc(&from, sizeof host);                           // also lost
    cudaMalloc(&to, sizeof host);
    cudaMemset(from, 0, 4 * 60);
    cudaMemcpy(to, from, sizeof host, cudaMemcpyDeviceToDevice);
    for (int k = 0; k < 3; k++)
        sum<<<1, 64>>>(to, from, 64);
    cudaFree(to);
    cudaMalloc(&to, sizeof host);                             // as before, and unwritten again
    cudaMemcpy(host, to, 4 * 10, cudaMemcpyDeviceToHost);     // copy of unwritten
    cudaFree(to);
    cudaMalloc(&lost, 4096);                                  // lost at reset
    cudaDeviceReset();
    cudaMalloc(&from, 8);                                     // lost at the end
    int seven = 7;
    cudaMemcpy(from, &seven, sizeof seven, cudaMemcpyHostToDevice);
    stop<<<1, 1>>>(from);
    cudaDeviceSynchronize();                                  // learns of the trap
    cudaDeviceSynchronize();
    return 0;
}

int main(int count, char **)
{
    return count > 1 ? bad() : good();
}
