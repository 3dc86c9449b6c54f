// Wrong and right uses of barriers, of lanes that wait for each other, and of mbarrier objects. What is wrong says so.

#define FULL 0xffffffffu

// -- Barriers of the block.

extern "C" __global__ void misses_barrier(int *out, int size) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = t;
    if (t < size)
        __syncthreads();  // wrong: in divergent code
    out[t] = s[63 - t];
}

extern "C" __global__ void two_barriers(int *out, int lanes) {
    int t = threadIdx.x;
    if (t % 32 < lanes) {
        out[t] = 1;
        __syncthreads();  // wrong: others are at the one below
    } else {
        out[t] = 2;
        __syncthreads();
    }
    out[t] += 2;
}

extern "C" __global__ void warps_apart(int *out, int warps) {
    int t = threadIdx.x;
    if (t / 32 < warps) {
        out[t] = 1;
        __syncthreads();  // wrong: other warps are at the one below
    }
    out[t] += 1;
    __syncthreads();
    out[t] += 1;
}

extern "C" __global__ void goes_around(int *out, int warps, int rounds) {
    int t = threadIdx.x, w = t / 32;
    for (int k = 0; k < rounds; ++k) {
        out[t] += k;
        if (w < warps) {
            out[t] += 2;
            __syncthreads();  // wrong: some warps never come here
        }
    }
    out[t] += 1;
}

extern "C" __global__ void guarded(int *out, int warps) {
    __shared__ int first;
    int t = threadIdx.x;
    if (t < 32 * warps) {
        if (t == 0)
            first = 1;
        __syncthreads();  // wrong: some warps never come here
    }
    out[t] = first;
}

extern "C" __global__ void ends_within(int *out, int last) {
    int t = threadIdx.x;
    for (int k = 0; k < 4; ++k) {
        if (k == last && t >= 32)
            return;
        out[t] += k;
        __syncthreads();
        if (k < 2)
            __syncthreads();
    }
    out[t] += 1;
}

extern "C" __global__ void ends_early(int *out, int size) {
    int t = threadIdx.x;
    if (t >= size)
        return;
    out[t] = 1;
    __syncthreads();
    out[t] += 1;
}

extern "C" __global__ void counts_differ(int *out, int wrong) {
    int t = threadIdx.x;
    if (t / 32 == 0) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, %0;" ::"r"(wrong ? 96 : 64) : "memory");
    }
    out[t] = t;
}

extern "C" __global__ void loop_of_barriers(int *out, int rounds) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = t;
    __syncthreads();
    for (int half = rounds; half > 0; half /= 2) {
        if (t < half)
            s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0)
        out[0] = s[0];
}

// -- Lanes of a warp.

extern "C" __global__ void not_in_mask(int *out, int last) {
    int t = threadIdx.x;
    unsigned mask = __ballot_sync(FULL, t < 16);
    if (t <= last) {
        out[t] = t;
        __syncwarp(mask);  // wrong: lane 16 is not in it
        out[t] += out[(t + 1) % 16];
    }
}

extern "C" __global__ void masks_differ(int *out, int wrong) {
    int t = threadIdx.x;
    unsigned mask = t < 16 ? 0xffffu : 0xffff0000u;
    if (wrong && t < 4)
        mask = FULL;  // wrong: the others of its half name less
    __syncwarp(mask);
    out[t] = __shfl_xor_sync(mask, t, 1);
}

extern "C" __global__ void reads_absent(int *out, int lanes) {
    int t = threadIdx.x, value = t;
    if (t < lanes)
        value = __shfl_down_sync(__activemask(), value, 8);  // wrong: those above are not here
    out[t] = value;
}

extern "C" __global__ void partial_warp(int *out, int width) {
    int t = threadIdx.x, value = t;  // a block of 16 threads may name all 32
    for (int step = width / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(FULL, value, step, width);  // wrong with 32: lanes above 15 do not exist
    out[t] = value;
}

extern "C" __global__ void waits_for_ever(int *out, int lanes) {
    int t = threadIdx.x;
    if (t < lanes)
        __syncwarp(FULL);  // wrong: the others wait below
    else
        __syncthreads();
    out[t] = 1;
    __syncthreads();
}

extern "C" __global__ void exchange_apart(int *out, int lanes) {
    int t = threadIdx.x, value;
    if (t < lanes)
        value = __shfl_sync(FULL, t, 31);  // wrong: the others shuffle below
    else
        value = __shfl_sync(FULL, 2 * t, 0);
    out[t] = value;
}

extern "C" __global__ void tiles(int *out) {
    int t = threadIdx.x, first = t & 24;
    unsigned mask = 0xffu << first;
    int value = t;
    for (int step = 4; step > 0; step /= 2)
        value += __shfl_down_sync(mask, value, step, 8);
    value = __reduce_add_sync(mask, value) + __popc(__match_any_sync(mask, t / 2)) + __any_sync(mask, t == 3);
    out[t] = value;
}

// -- mbarrier objects.

__device__ unsigned place_of(unsigned long long *object) { return (unsigned)__cvta_generic_to_shared(object); }

extern "C" __global__ void mbarriers(int *out, int what) {
    __shared__ unsigned long long object[2];
    unsigned at = place_of(object), t = threadIdx.x;
    unsigned long long state = 0;
    if (t == 0 && what != 1)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(what == 2 ? 0 : blockDim.x) : "memory");
    if (t == 0 && what == 3)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(blockDim.x) : "memory");
    if (t == 0 && what == 4)
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at) : "memory");
    __syncthreads();
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    int done = 0;
    for (int k = 0; k < 100 && !done; ++k)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at), "l"(state) : "memory");
    __syncthreads();
    if (t == 0 && what == 0) {
        asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(1) : "memory");
    }
    out[t] = done;
}
