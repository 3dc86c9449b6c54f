// Kernels that hand stages of shared memory over between bulk copies and threads; with `wrong`, a step is left out. Tests name lines.
#define LANE asm volatile
static __device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
static __device__ void init(unsigned b, int n) { LANE("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory"); }
static __device__ void arrive(unsigned b) { LANE("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
static __device__ void expect(unsigned b, int n) {
    LANE("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(n) : "memory");
}
static __device__ void wait(unsigned b, int parity) {
    unsigned done = 0;
    while (!done)
        LANE("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
             : "=r"(done) : "r"(b), "r"(parity) : "memory");
}
static __device__ void load(void *to, const void *from, int bytes, unsigned b) {
    LANE("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"  // line 17
         ::"r"(at(to)), "l"(from), "r"(bytes), "r"(b) : "memory");
}
// One warp copies, four compute. wrong 1: a barrier of the block instead of the wait for the data; 2: a stage is given back before it
// is read.
extern "C" __global__ void pipeline(const int *in, int *out, int tiles, int stages, int wrong) {
    __shared__ __align__(128) int stage[4][128];
    __shared__ unsigned long long full[4], empty[4];
    int t = threadIdx.x - 32;
    if (threadIdx.x == 0)
        for (int s = 0; s < stages; s++) { init(at(&full[s]), 1); init(at(&empty[s]), 128); }
    __syncthreads();
    if (threadIdx.x == 0)
        for (int k = 0; k < tiles; k++) {
            int s = k % stages, round = k / stages;
            if (round) wait(at(&empty[s]), round - 1 & 1);
            expect(at(&full[s]), 512);
            load(stage[s], in + 128 * k, 512, at(&full[s]));
        }
    if (wrong == 1) __syncthreads();
    if (t >= 0)
        for (int k = 0; k < tiles; k++) {
            int s = k % stages, round = k / stages;
            if (wrong != 1) wait(at(&full[s]), round & 1);
            if (wrong == 2) arrive(at(&empty[s]));
            out[128 * k + t] = 2 * stage[s][t];  // line 41
            if (wrong != 2) arrive(at(&empty[s]));
        }
}
// All threads fill a stage, one stores it. wrong 1: no wait for the store; 2: no barrier before it; 3: nor a commit, so no wait.
extern "C" __global__ void stores(int *out, int rounds, int wrong) {
    __shared__ __align__(128) int stage[128];
    for (int k = 0; k < rounds; k++) {
        stage[threadIdx.x] = 1000 * k + threadIdx.x;  // line 49
        LANE("fence.proxy.async.shared::cta;" ::: "memory");
        if (wrong != 2) __syncthreads();
        if (threadIdx.x == 0) {
            LANE("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;" ::"l"(out + 128 * k), "r"(at(stage)) : "memory");  // line 53
            if (wrong != 3) LANE("cp.async.bulk.commit_group;" ::: "memory");
            if (wrong != 1) LANE("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
    LANE("cp.async.bulk.wait_group 0;" ::: "memory");
}
// The first block of each cluster copies to all of them. wrong 1: a barrier of the cluster instead of the wait; 2: the second
// copy does not wait until all have read.
extern "C" __global__ void multicast(const int *in, int *out, int wrong) {
    __shared__ __align__(128) int stage[64];
    __shared__ unsigned long long full;
    unsigned rank;
    LANE("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) { init(at(&full), 1); expect(at(&full), 256); }
    LANE("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    for (int k = 0; k < 2; k++) {
        if (rank == 0 && threadIdx.x == 0)
            LANE("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"  // line 73
                 ::"r"(at(stage)), "l"(in + 64 * k), "r"(at(&full)), "h"((short)3) : "memory");
        if (wrong == 1) LANE("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); else wait(at(&full), k);
        if (threadIdx.x == 0 && k == 0) expect(at(&full), 256);
        if (wrong == 2) LANE("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
        out[(2 * k + rank) * 64 + threadIdx.x] = stage[threadIdx.x];  // line 77
        if (wrong != 2) LANE("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    }
}
// Each block copies its words to the next one of the cluster. wrong 1: nobody waits for what comes.
extern "C" __global__ void neighbours(int *out, int wrong) {
    __shared__ __align__(128) int own[64], come[64];
    __shared__ unsigned long long full;
    unsigned rank, there, signal;
    LANE("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    own[threadIdx.x] = 100 * rank + threadIdx.x;
    if (threadIdx.x == 0) { init(at(&full), 1); expect(at(&full), 256); }
    LANE("fence.proxy.async.shared::cta;" ::: "memory");
    LANE("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    LANE("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(come)), "r"(rank ^ 1));
    LANE("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(signal) : "r"(at(&full)), "r"(rank ^ 1));
    if (threadIdx.x == 0)
        LANE("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"  // line 95
             ::"r"(there), "r"(at(own)), "r"(signal) : "memory");
    if (wrong) LANE("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    else wait(at(&full), 0);
    out[64 * rank + threadIdx.x] = come[threadIdx.x];  // line 98
    LANE("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
