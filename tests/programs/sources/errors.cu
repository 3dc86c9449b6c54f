// Errors as a program sees them. The argument says which kernel goes wrong.
#include <cstdio>
#include <cstdlib>

__global__ void store(int *where, int n) { where[threadIdx.x] = n; }
__global__ void stop() { __trap(); }
__global__ void stuck() { if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); else asm volatile("bar.sync 2, 64;"); }
__global__ void forever(volatile int *flag) { while (*flag == 0) { } }

static void say(const char *what, cudaError_t code) { printf("%s %d %s: %s\n", what, (int)code, cudaGetErrorName(code), cudaGetErrorString(code)); }

int main(int argc, char **argv)
{
    int which = argc > 1 ? atoi(argv[1]) : 0, *data;
    say("malloc", cudaMalloc(&data, 64 * sizeof(int)));
    cudaMemset(data, 0, 64 * sizeof(int));
    if (which == 0) {
        store<<<1, 2048>>>(data, 1);
        say("threads", cudaGetLastError());
        say("again", cudaGetLastError());
        store<<<0, 32>>>(data, 1);
        say("grid", cudaGetLastError());
        store<<<1, 32, 1 << 20>>>(data, 1);
        say("shared", cudaGetLastError());
        say("copy", cudaMemcpy(data, data, 1 << 20, cudaMemcpyDeviceToDevice));
        say("kind", cudaMemcpy(data, data, 4, (cudaMemcpyKind)9));
        say("free", cudaFree(data + 1));
        say("memory", cudaMalloc(&data, (size_t)1 << 50));
        say("device", cudaSetDevice(1));
        cudaGetLastError();
    }
    if (which == 1)
        store<<<1, 128>>>(data, 1);
    if (which == 2)
        store<<<1, 32>>>((int *)((char *)data + 2), 1);
    if (which == 3)
        stop<<<1, 32>>>();
    if (which == 4)
        forever<<<1, 32>>>(data);
    if (which == 5)
        stuck<<<1, 64>>>();
    say("launch", cudaGetLastError());
    say("wait", cudaDeviceSynchronize());
    say("then", cudaMemset(data, 0, 4));
    return which ? 4 : 0;
}
