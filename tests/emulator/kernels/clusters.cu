// Thread block clusters, written with the instructions themselves.

__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ unsigned rank_of_block()
{
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ unsigned blocks_of_cluster()
{
    unsigned blocks;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
    return blocks;
}

__device__ unsigned in_block(unsigned address, unsigned rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ void meet()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

#define SPECIAL(k, name) { unsigned v; asm volatile("mov.u32 %0, %%" name ";" : "=r"(v)); out[k] = v; }

extern "C" __global__ void registers(unsigned *out)
{
    out += 16 * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
    SPECIAL(0, "cluster_ctarank") SPECIAL(1, "cluster_nctarank")
    SPECIAL(2, "cluster_ctaid.x") SPECIAL(3, "cluster_ctaid.y") SPECIAL(4, "cluster_ctaid.z")
    SPECIAL(5, "cluster_nctaid.x") SPECIAL(6, "cluster_nctaid.y") SPECIAL(7, "cluster_nctaid.z")
    SPECIAL(8, "clusterid.x") SPECIAL(9, "clusterid.y") SPECIAL(10, "clusterid.z")
    SPECIAL(11, "nclusterid.x") SPECIAL(12, "nclusterid.y") SPECIAL(13, "nclusterid.z")
    int is_explicit;
    asm volatile("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.s32 %0, 1, 0, p; }" : "=r"(is_explicit));
    out[14] = is_explicit;
}

// Each block passes its values around the ring of its cluster, and each warp asks where what it read lies.
extern "C" __global__ void ring(unsigned *out, unsigned rounds)
{
    __shared__ unsigned values[2][64];
    unsigned rank = rank_of_block(), blocks = blocks_of_cluster(), i = threadIdx.x, where;
    values[0][i] = 1000 * blockIdx.x + i;
    meet(); // a block may have to start yet
    for (unsigned k = 0; k < rounds; k++) {
        unsigned next = in_block(shared_address(&values[(k + 1) & 1][i]), (rank + 1) % blocks);
        asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(next), "r"(values[k & 1][i]) : "memory");
        asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(where) : "r"(next));
        meet();
    }
    out[2 * (blockIdx.x * 64 + i)] = values[rounds & 1][i];
    out[2 * (blockIdx.x * 64 + i) + 1] = where;
}

// Every lane adds to a counter in another block, one in each, through generic addresses.
extern "C" __global__ void count(unsigned *out)
{
    __shared__ unsigned counter;
    if (threadIdx.x == 0)
        counter = 0;
    meet();
    unsigned long long there, own = (unsigned long long)&counter;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(threadIdx.x % blocks_of_cluster()));
    atomicAdd((unsigned *)there, threadIdx.x);
    meet();
    unsigned rank, far = threadIdx.x == 0;
    asm volatile("getctarank.u64 %0, %1;" : "=r"(rank) : "l"(there));
    if (threadIdx.x < 32)
        out[blockIdx.x * 32 + threadIdx.x] = far ? counter : rank;
}

// Block 0 waits on its mbarrier until all others have sent it a word, and 8 bytes each with st.async.
extern "C" __global__ void signals(unsigned *out)
{
    __shared__ unsigned long long barrier, words[16];
    unsigned rank = rank_of_block(), blocks = blocks_of_cluster();
    unsigned at = shared_address(&barrier);
    if (rank == 0 && threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(blocks) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(at), "r"(8 * (blocks - 1)) : "memory");
    }
    meet();
    unsigned first = in_block(at, 0);
    if (threadIdx.x == 0) {
        if (rank) {
            unsigned word = in_block(shared_address(&words[rank]), 0);
            asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
                         :: "r"(word), "l"(100ull * blockIdx.x), "r"(first) : "memory");
        }
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(first) : "memory");
    }
    if (rank == 0) {
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(at) : "memory");
        if (threadIdx.x < blocks)
            out[blockIdx.x + threadIdx.x] = threadIdx.x ? (unsigned)words[threadIdx.x] : 7;
    }
    meet();
}

// Block 0 ends before the others arrive: threads that have ended do not count.
extern "C" __global__ void leave_early(unsigned *out)
{
    if (rank_of_block() == 0)
        return;
    meet();
    out[blockIdx.x] = 1;
}

// The blocks of a cluster wait at a barrier that block 0 never comes to, because it waits for a word that nobody writes.
extern "C" __global__ void stuck(unsigned *out)
{
    __shared__ unsigned long long barrier;
    if (rank_of_block() != 0)
        meet();
    else {
        asm volatile("barrier.cta.sync 1, 64;");
        meet();
    }
    out[blockIdx.x] = (unsigned)barrier;
}

extern "C" __global__ void beyond(unsigned *out)
{
    __shared__ unsigned value;
    value = 1;
    unsigned there = in_block(shared_address(&value), blocks_of_cluster());
    unsigned got;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(got) : "r"(there));
    out[blockIdx.x] = got;
}

// Every cluster waits until the next one has set its flag, so that more than one must be there.
extern "C" __global__ void between(volatile unsigned *flags)
{
    unsigned cluster, clusters;
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
    asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(clusters));
    if (rank_of_block() == 0 && threadIdx.x == 0) {
        flags[cluster] = 1;
        while (!flags[(cluster + 1) % clusters])
            ;
    }
    meet();
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(unsigned *out) { out[blockIdx.x] = rank_of_block(); }

// Each block writes into the next one's shared memory, which reads it and writes there itself. `left_out`: 1 and 2 the barriers before
// the read and before the block's own write, 4 all of the barriers, for an mbarrier of the next block.
extern "C" __global__ void neighbours(unsigned *out, int left_out, int atomics)
{
    __shared__ unsigned value[32], sum;
    __shared__ unsigned long long full;
    unsigned next = (rank_of_block() + 1) % blocks_of_cluster(), i = threadIdx.x;
    if (i == 0) {
        sum = 0;
        asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(shared_address(&full)));
    }
    meet();
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(in_block(shared_address(&value[i]), next)), "r"(i + 1) : "memory");
    if (atomics)
        asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], 1;" :: "r"(in_block(shared_address(&sum), 0)) : "memory");
    if (left_out & 4) {
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(in_block(shared_address(&full), next)));
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cluster.shared.b64 p, [%0], 0; @!p bra again; }"
                     :: "r"(shared_address(&full)));
    } else if (!(left_out & 1)) {
        meet();
    }
    out[32 * blockIdx.x + i] = value[i];
    if (!(left_out & 6))
        meet();
    if (!(left_out & 4))
        asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(in_block(shared_address(&value[i]), next)), "r"(i + 7) : "memory");
    meet();
}
