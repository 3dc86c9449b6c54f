// Tensor maps made on the host: a matrix goes box by box through shared memory, doubled, swizzled on its way, and added to another.
#include <cuda.h>
#include <cstdio>
#include <cstring>

constexpr int ROWS = 100, COLUMNS = 72, BOX_ROWS = 32, BOX_COLUMNS = 32;

__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__global__ void doubled(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to,
                        const __grid_constant__ CUtensorMap sums)
{
    extern __shared__ __align__(1024) float box[];
    unsigned at = shared_address(box + BOX_ROWS * BOX_COLUMNS), data = shared_address(box), done = 0;
    int x = blockIdx.x * BOX_COLUMNS, y = blockIdx.y * BOX_ROWS;
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&from) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(BOX_ROWS * BOX_COLUMNS * 4) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(data), "l"(&from), "r"(x), "r"(y), "r"(at) : "memory");
    }
    __syncthreads();
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at) : "memory");
    for (int i = threadIdx.x; i < BOX_ROWS * BOX_COLUMNS; i += blockDim.x)
        box[i] *= 2;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&to), "r"(x), "r"(y), "r"(data) : "memory");
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&sums), "r"(x), "r"(y), "r"(data) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;" ::: "memory");
    }
}

typedef CUresult (*Encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                           const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                           CUtensorMapFloatOOBfill);

int main()
{
    static float matrix[ROWS][COLUMNS], result[2][ROWS][COLUMNS];
    void *encode = nullptr, *missing = &missing;
    cudaDriverEntryPointQueryResult status;
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &status);
    printf("major %d, entry %d", major, status);
    cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &missing, 12000, cudaEnableDefault, &status);
    printf(", missing %d %d\n", status, missing == nullptr);
    float *from, *to;
    cudaMalloc(&from, sizeof matrix);
    cudaMalloc(&to, sizeof result);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        matrix[0][i] = i;
    cudaMemcpy(from, matrix, sizeof matrix, cudaMemcpyHostToDevice);
    cuuint64_t sizes[2] = {COLUMNS, ROWS}, strides[1] = {COLUMNS * sizeof(float)};
    cuuint32_t box[2] = {BOX_COLUMNS, BOX_ROWS}, steps[2] = {1, 1};
    for (int swizzle = CU_TENSOR_MAP_SWIZZLE_NONE; swizzle <= CU_TENSOR_MAP_SWIZZLE_128B; swizzle += 3) {
        CUtensorMap maps[3];
        float *places[3] = {from, to, to + ROWS * COLUMNS};
        for (int k = 0; k < 3; k++)
            if (CUresult error = ((Encode)encode)(&maps[k], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, places[k], sizes, strides, box, steps,
                                                  CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)swizzle,
                                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
                printf("error %d\n", error);
        cudaMemset(to, 0, sizeof matrix);
        cudaMemcpy(to + ROWS * COLUMNS, matrix, sizeof matrix, cudaMemcpyHostToDevice);
        doubled<<<dim3((COLUMNS + BOX_COLUMNS - 1) / BOX_COLUMNS, (ROWS + BOX_ROWS - 1) / BOX_ROWS), 128, BOX_ROWS * BOX_COLUMNS * 4 + 8>>>(
            maps[0], maps[1], maps[2]);
        cudaError_t error = cudaMemcpy(result, to, sizeof result, cudaMemcpyDeviceToHost);
        bool good = true;
        for (int i = 0; i < ROWS * COLUMNS; i++)
            good &= result[0][0][i] == 2 * i && result[1][0][i] == 3 * i;
        printf("swizzle %d: %s %s\n", swizzle, cudaGetErrorName(error), good ? "good" : "BAD");
    }
    CUtensorMap map;
    box[0] = 3; // 12 bytes
    printf("row of 12 bytes: %d\n", ((Encode)encode)(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, from, sizes, strides, box, steps,
                                                     CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                                     CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return 0;
}
