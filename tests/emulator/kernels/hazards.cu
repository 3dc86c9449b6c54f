// Kernels with hazards and wrong accesses, or almost. Tests name the lines, so keep them where they are.
extern "C" __global__ void reverses(int *out, int barrier) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    if (barrier) __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];  // line 6
    if (barrier > 1) __syncthreads();
    s[threadIdx.x] = 7;  // line 8
}
extern "C" __global__ void reverses_in_warp(int *out, int meet) {
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    if (meet == 1) __syncwarp();
    if (meet == 2) __syncwarp(threadIdx.x < 16 ? 0xffffu : 0xffff0000u);
    out[threadIdx.x] = s[31 - threadIdx.x];  // line 15
}
extern "C" __global__ void sums_tree(int *out, int until) {
    __shared__ int s[256];
    s[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];  // line 22
        if (half > until) __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = s[0];
}
extern "C" __global__ void same_place(int *out, int value) {
    out[0] = value ? value : blockIdx.x;  // line 28
}
__device__ unsigned int blocks_done;
extern "C" __global__ void last_block(int *part, int *out, int fence) {
    part[blockIdx.x] = blockIdx.x;  // line 32
    if (fence) __threadfence();
    __shared__ bool last;
    if (threadIdx.x == 0) last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last) out[threadIdx.x] = part[threadIdx.x % gridDim.x];  // line 37
}
extern "C" __global__ void counts_in_scope(int *out, int device) {
    if (device) atomicAdd(&out[threadIdx.x], 1);
    else atomicAdd_block(&out[threadIdx.x], 1);  // line 41
}
extern "C" __global__ void beyond(int *out, int n, int *wide) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i < n ? i : i + 4] = i;  // line 45
    out[i & 7] = *(int *)((char *)wide + (i & 31));  // line 46
    __shared__ int s[32];
    s[threadIdx.x] = 1;  // line 48
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x & 31];
}
extern "C" __global__ void bytes_of_words(unsigned char *out) {
    __shared__ unsigned char s[128];
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = s[threadIdx.x] + 1;
    out[threadIdx.x] += 1;
    __syncthreads();
    s[threadIdx.x ^ 1] = 3;
}
extern "C" __global__ void hands_over(int *data, int fence) {
    __shared__ volatile int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        data[1] = 5;  // line 65
        if (fence) __threadfence_block();
        ready = 1;
    }
    if (threadIdx.x == 32) {
        while (!ready) {}
        data[0] = data[1];  // line 71
    }
}
__device__ int held, drawn;
extern "C" __global__ void takes_turns(volatile int *data, int fence, int lock) {
    if (threadIdx.x % 32) return;
    int first = blockIdx.x == 0 && threadIdx.x == 0;
    if (first || lock) {
        while (atomicCAS(&held, 0, 1)) {}
        __threadfence();
    }
    data[0] = 1 + blockIdx.x + threadIdx.x;  // VOLATILE
    if (fence) __threadfence();
    if (first || lock) atomicExch(&held, 0);
}
extern "C" __global__ void waits_for_flag(volatile int *flag, volatile int *data, int fence) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = 5;  // FLAGGED
        if (fence) __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) flag[0] = 1;
    } else {
        if (threadIdx.x == 0) while (flag[0] == 0) {}
        __syncthreads();
        data[threadIdx.x + blockDim.x] = data[threadIdx.x];
    }
}
extern "C" __global__ void exchanges(int *out) {
    int *place = (int *)malloc(4);
    atomicExch(place, 3);
    out[threadIdx.x] = atomicExch(place, 4);
    free(place);
}
extern "C" __global__ void exchanges_unwritten(int *out) {
    int *place = (int *)malloc(4);
    out[threadIdx.x] = atomicExch(place, 4);
    free(place);
}
__device__ int locked[2];
// Warps take a lock in turn. `scopes` is for each warp 0 (no fence after it has the lock), 1 (of the block) or 2 (of the device);
// with `apart` each has a lock of its own, and waits for the one before it by `turn`.
extern "C" __global__ void takes_lock(int *data, const int *scopes, int apart, int *turn) {
    int me = blockIdx.x * blockDim.x / 32 + threadIdx.x / 32, lock = apart ? me : 0;
    if (threadIdx.x % 32) return;
    if (apart) while (*(volatile int *)turn != me) {}
    while (atomicCAS(&locked[lock], 0, 1)) {}
    if (scopes[me] == 1) __threadfence_block();
    if (scopes[me] == 2) __threadfence();
    data[0] = 1 + me;  // LOCKED
    __threadfence();
    atomicExch(&locked[lock], 0);
    if (apart) *(volatile int *)turn = me + 1;
}
