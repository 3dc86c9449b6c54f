// Thread block clusters: a histogram whose bins lie in the shared memory of all blocks of a cluster, and how clusters are launched.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>

namespace cg = cooperative_groups;
constexpr int BINS = 256, THREADS = 128, VALUES = 1 << 14;

__global__ void histogram(int *result, const unsigned char *values, int bins_per_block)
{
    extern __shared__ int bins[];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x)
        bins[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < VALUES; i += gridDim.x * blockDim.x) {
        int *remote = cluster.map_shared_rank(bins, values[i] / bins_per_block);
        atomicAdd(remote + values[i] % bins_per_block, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x)
        atomicAdd(&result[cluster.block_rank() * bins_per_block + i], bins[i]);
}

__global__ void __cluster_dims__(2, 2, 1) ranks(int *result)
{
    cg::cluster_group cluster = cg::this_cluster();
    dim3 at = cluster.block_index();
    if (threadIdx.x == 0)
        result[blockIdx.y * gridDim.x + blockIdx.x] = 1000 * cluster.block_rank() + 100 * cluster.num_blocks() + 10 * at.y + at.x;
}

static void say(const char *what, cudaError_t error) { printf("%s: %s\n", what, cudaGetErrorName(error)); }

static cudaLaunchConfig_t configure(cudaLaunchAttribute *attribute, int blocks, int size, size_t shared)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = THREADS;
    config.dynamicSmemBytes = shared;
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = size;
    attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    return config;
}

static cudaError_t launch(int blocks, int size, int *result, const unsigned char *values, int *active)
{
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = configure(&attribute, blocks, size, BINS / size * sizeof(int));
    cudaError_t error = cudaOccupancyMaxActiveClusters(active, histogram, &config);
    return error ? error : cudaLaunchKernelEx(&config, histogram, result, values, BINS / size);
}

// With so much shared memory that an SM holds one block.
static void say_active(int size)
{
    constexpr int SHARED = 200 << 10;
    int active = -1, largest = -1;
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = configure(&attribute, 2 * size, size, SHARED);
    cudaFuncSetAttribute(histogram, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    cudaError_t error = cudaOccupancyMaxActiveClusters(&active, histogram, &config);
    cudaOccupancyMaxPotentialClusterSize(&largest, histogram, &config);
    printf("large clusters of %d: %s, %d active, at most %d blocks\n", size, cudaGetErrorName(error), active, largest);
}

int main()
{
    static unsigned char values[VALUES];
    static int expected[BINS], found[BINS];
    int *result, *places, clusters = 0, supported = 0, host[16];
    unsigned char *data;
    for (int i = 0; i < VALUES; i++)
        expected[values[i] = (unsigned char)(i * 2654435761u >> 13)]++;
    cudaMalloc(&result, sizeof expected);
    cudaMalloc(&places, sizeof host);
    cudaMalloc(&data, sizeof values);
    cudaMemcpy(data, values, sizeof values, cudaMemcpyHostToDevice);
    cudaDeviceGetAttribute(&supported, cudaDevAttrClusterLaunch, 0);
    for (int size = 1; size <= 16; size *= 4) {
        cudaMemset(result, 0, sizeof expected);
        cudaError_t error = launch(16, size, result, data, &clusters);
        if (size == 16 && error) {
            say("16 blocks", error);
            cudaGetLastError();
            cudaFuncSetAttribute(histogram, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
            error = launch(16, size, result, data, &clusters);
        }
        cudaMemcpy(found, result, sizeof found, cudaMemcpyDeviceToHost);
        bool good = true;
        for (int i = 0; i < BINS; i++)
            good &= found[i] == expected[i];
        printf("clusters of %d: %s, %s, %d active\n", size, cudaGetErrorName(error), good ? "good" : "BAD", clusters);
    }
    say("15 blocks in clusters of 4", launch(15, 4, result, data, &clusters));
    cudaGetLastError();
    ranks<<<dim3(4, 2), 32>>>(places);
    say("ranks", cudaMemcpy(host, places, 8 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++)
        printf("%d%s", host[i], i == 7 ? "\n" : " ");
    cudaFuncAttributes attributes;
    cudaFuncGetAttributes(&attributes, ranks);
    printf("supported %d, compiled for %d x %d x %d\n", supported, attributes.requiredClusterWidth, attributes.requiredClusterHeight,
           attributes.requiredClusterDepth);
    for (int size = 4; size <= 16; size *= 4)
        say_active(size);
    return 0;
}
