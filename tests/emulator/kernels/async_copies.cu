// Pipelines of asynchronous copies as CUDA programs write them, in inline PTX, so that no header is needed. For compute_90.

__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// Sums `count` tiles of 64 float4, the next tile on its way while one is summed; of odd threads' copies only 8 bytes are read.
extern "C" __global__ void two_stages(const float4 *in, float *out, int count)
{
    __shared__ float4 tile[2][64];
    int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k <= count; ++k) {
        if (k < count)
            asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(&tile[k & 1][t])),
                         "l"(in + k * 64 + t), "r"(t & 1 ? 8 : 16));
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        if (k > 0) {
            float4 v = tile[(k - 1) & 1][63 - t];
            sum += v.x + v.y + v.z + v.w;
        }
        __syncthreads();
    }
    out[t] = sum;
}

// One thread brings 1 KiB per round with a bulk copy; all wait for it on an mbarrier, add one, and one thread writes it back.
extern "C" __global__ void bulk_rounds(int *data, int rounds)
{
    __shared__ alignas(128) int tile[256];
    __shared__ alignas(8) unsigned long long full;
    unsigned to = shared_address(tile), barrier = shared_address(&full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        int *from = data + 256 * round;
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(barrier));
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                         "l"(__cvta_generic_to_global(from)), "r"(1024), "r"(barrier) : "memory");
        }
        int done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(barrier), "r"(round & 1) : "memory");
        tile[threadIdx.x] += 1;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(__cvta_generic_to_global(from)),
                         "r"(to) : "memory");
            asm volatile("cp.async.bulk.commit_group;");
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }
        __syncthreads();
    }
}
