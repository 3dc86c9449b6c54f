// Threads that wait for other threads: of their warp, of their block, of another block. Each kernel ends only where all make progress.
#define LANE (threadIdx.x & 31)
#define I (blockIdx.x * blockDim.x + threadIdx.x)

__device__ void critical(int* sum, int* order) {
    volatile int* s = sum;
    int turn = s[0];
    s[0] = turn + 1;
    s[1] += I + 1;
    order[turn] = I;
    __threadfence();
}

extern "C" __global__ void lock_in_branch(int* lock, int* sum, int* order) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            critical(sum, order);
            atomicExch(lock, 0);
            done = true;
        }
    }
}

extern "C" __global__ void lock_spinning(int* lock, int* sum, int* order) {
    while (atomicCAS(lock, 0, 1) != 0);
    critical(sum, order);
    atomicExch(lock, 0);
}

extern "C" __global__ void lock_backoff(int* lock, int* sum, int* order) {
    unsigned ns = 8;
    while (atomicCAS(lock, 0, 1) == 1) {
        __nanosleep(ns);
        if (ns < 256) ns *= 2;
    }
    critical(sum, order);
    atomicExch(lock, 0);
}

// Each thread takes two locks, in an order that all share.
extern "C" __global__ void transfers(int* locks, int* money, int accounts) {
    int from = (I * 7) % accounts, to = (I * 3 + 1) % accounts;
    if (from == to) return;
    int first = min(from, to), second = max(from, to);
    while (atomicCAS(&locks[first], 0, 1) != 0);
    while (atomicCAS(&locks[second], 0, 1) != 0);
    volatile int* m = money;
    m[from] -= I;
    m[to] += I;
    __threadfence();
    atomicExch(&locks[second], 0);
    atomicExch(&locks[first], 0);
}

// A sorted list with a lock per node, in which each thread inserts one value, hand over hand.
extern "C" __global__ void list_insert(volatile int* next, volatile int* value, int* locks, const int* in, int n) {
    if (I >= n) return;
    int mine = I + 1, v = in[I], at = 0;
    value[mine] = v;
    while (atomicCAS(&locks[at], 0, 1) != 0);
    while (true) {
        int following = next[at];
        if (following < 0 || value[following] > v || (value[following] == v && following > mine)) {
            next[mine] = following;
            __threadfence();
            next[at] = mine;
            __threadfence();
            atomicExch(&locks[at], 0);
            return;
        }
        while (atomicCAS(&locks[following], 0, 1) != 0);
        atomicExch(&locks[at], 0);
        at = following;
    }
}

// Lane 31 makes, the others take one each from the lane above: values travel down through flags in shared memory.
extern "C" __global__ void lanes_in_a_row(int* out) {
    __shared__ volatile int flag[32], data[32];
    int lane = threadIdx.x;
    flag[lane] = 0;
    __syncwarp();
    if (lane == 31) {
        data[31] = 1000;
        __threadfence_block();
        flag[31] = 1;
    } else {
        while (flag[lane + 1] == 0);
        data[lane] = data[lane + 1] + lane;
        __threadfence_block();
        flag[lane] = 1;
    }
    __syncwarp();
    out[lane] = data[lane];
}

// Even lanes make, odd lanes take, many times, through a slot that is full or empty.
extern "C" __global__ void producer_consumer_lanes(int* out, int rounds) {
    __shared__ volatile int slot[64], full[64];
    int pair = threadIdx.x / 2;
    full[threadIdx.x] = 0;
    __syncthreads();
    int sum = 0;
    if (threadIdx.x & 1) {
        for (int k = 0; k < rounds; k++) {
            while (!full[pair]);
            sum = sum * 3 + slot[pair];
            __threadfence_block();
            full[pair] = 0;
        }
    } else {
        for (int k = 0; k < rounds; k++) {
            while (full[pair]);
            slot[pair] = pair + k * k;
            __threadfence_block();
            full[pair] = 1;
        }
    }
    __syncwarp();
    out[threadIdx.x] = __shfl_xor_sync(0xffffffff, sum, 1);
}

// The first warp waits for the last.
extern "C" __global__ void warps_in_a_row(int* out) {
    __shared__ volatile int ready[32];
    int warp = threadIdx.x / 32, last = blockDim.x / 32 - 1;
    if (LANE == 0) ready[warp] = 0;
    __syncthreads();
    if (warp != last) while (ready[warp + 1] == 0);
    int before = warp == last ? 1 : ready[warp + 1];
    __syncwarp();
    if (LANE == 0) ready[warp] = before + 1 + warp;
    out[I] = before * 100 + LANE;
}

// Warps 0 and 1 make, the others take: a ring of two buffers with a barrier for full and one for empty each.
extern "C" __global__ void specialised_warps(const int* in, int* out, int rounds) {
    __shared__ int buffer[2][64];
    int t = threadIdx.x, count = blockDim.x;
    if (t < 64) {
        for (int k = 0; k < rounds; k++) {
            if (k >= 2) asm volatile("bar.sync %0, %1;" ::"r"(3 + k % 2), "r"(count) : "memory");
            buffer[k % 2][t] = in[k * 64 + t] * 2;
            asm volatile("bar.arrive %0, %1;" ::"r"(1 + k % 2), "r"(count) : "memory");
        }
    } else {
        int sum = 0;
        for (int k = 0; k < rounds; k++) {
            asm volatile("bar.sync %0, %1;" ::"r"(1 + k % 2), "r"(count) : "memory");
            sum = sum * 5 + buffer[k % 2][(t * 3 + k) % 64];
            if (k + 2 < rounds) asm volatile("bar.arrive %0, %1;" ::"r"(3 + k % 2), "r"(count) : "memory");
        }
        out[blockIdx.x * (count - 64) + t - 64] = sum;
    }
}

// Two halves of a block that synchronise apart, with votes.
extern "C" __global__ void halves(const int* in, int* out) {
    __shared__ int s[256];
    int t = threadIdx.x, half = t / 128, x = in[t];
    int votes;
    s[t] = x;
    for (int k = 0; k < 3 + 4 * half; k++) {
        asm volatile("bar.sync %0, 128;" ::"r"(half + 5) : "memory");
        int y = s[half * 128 + (t * 5 + 1) % 128];
        asm volatile("{ .reg .pred p; setp.gt.s32 p, %2, %3; bar.red.popc.u32 %0, %1, 128, p; }"
                     : "=r"(votes) : "r"(half + 5), "r"(y), "r"(k * 3) : "memory");
        s[t] = y + votes;
    }
    out[t] = s[t];
}

// Lanes come to the same barrier in different places, which `barrier` without .aligned allows.
extern "C" __global__ void barrier_on_both_sides(int* out) {
    __shared__ int s[96];
    int t = threadIdx.x, other;
    if (t % 3 == 0) {
        s[t] = t * 10;
        asm volatile("barrier.sync 2;" ::: "memory");
        other = s[(t + 1) % 96];
        asm volatile("barrier.sync 2;" ::: "memory");
        s[t] = other * 2;
    } else {
        s[t] = t + 1;
        asm volatile("barrier.sync 2;" ::: "memory");
        other = s[(t + 7) % 96];
        asm volatile("barrier.sync 2;" ::: "memory");
        s[t] = other * 3;
    }
    asm volatile("barrier.sync 2;" ::: "memory");
    out[t] = s[95 - t];
}

extern "C" __global__ void warp_barrier_on_both_sides(int* out) {
    __shared__ volatile int s[32];
    int lane = threadIdx.x;
    if (lane < 16) {
        s[lane] = lane * 3;
        __syncwarp();
        out[lane] = s[lane + 16];
    } else {
        s[lane] = lane * 5;
        __syncwarp();
        out[lane] = s[lane - 16];
    }
}

extern "C" __global__ void ticket_lock(unsigned* next, volatile unsigned* serving, int* sum, int* order) {
    if (threadIdx.x == 0) {
        unsigned ticket = atomicAdd(next, 1);
        while (*serving != ticket);
        critical(sum, order);
        *serving = ticket + 1;
    }
    __syncthreads();
}

// Block b waits for block b + 1 (down) or b - 1.
extern "C" __global__ void blocks_in_a_row(volatile int* flags, int* out, int down) {
    __shared__ int got;
    int last = gridDim.x - 1, b = blockIdx.x;
    if (threadIdx.x == 0) {
        int from = down ? b + 1 : b - 1;
        if (from >= 0 && from <= last) while (flags[from] == 0);
        got = (from < 0 || from > last ? 0 : flags[from]) + b + 1;
        __threadfence();
        flags[b] = got;
    }
    __syncthreads();
    out[I] = got * 1000 + threadIdx.x;
}

__device__ void grid_barrier(unsigned* arrived, unsigned target) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (*(volatile unsigned*)arrived < target);
        __threadfence();
    }
    __syncthreads();
}

// Each block adds its neighbour's value of the round before; shared and local memory must survive the wait.
extern "C" __global__ void grid_barrier_rounds(unsigned* arrived, int* values, int* out, int rounds) {
    __shared__ int kept[64];
    int mine[4], t = threadIdx.x, n = gridDim.x;
    kept[t] = I;
    for (int k = 0; k < 4; k++) mine[k] = I * k;
    for (int r = 0; r < rounds; r++) {
        if (t == 0) values[(r + 1) * n + blockIdx.x] = values[r * n + (blockIdx.x + 1) % n] + blockIdx.x * r + 1;
        grid_barrier(arrived, (r + 1) * n);
        mine[(t + r) % 4] += values[(r + 1) * n + (blockIdx.x + 5) % n];
        kept[t] += kept[(t + 1) % 64] & 1;
    }
    out[I] = mine[0] + 3 * mine[1] + 5 * mine[2] + 7 * mine[3] + 1000 * kept[t];
}

extern "C" __global__ void last_block(const int* in, int* partial, unsigned* count, int* out) {
    __shared__ int sum;
    __shared__ bool last;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, in[I]);
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(count, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int total = 0;
        for (int k = 0; k < gridDim.x; k++) total += ((volatile int*)partial)[k];
        *out = total;
    }
}

// A barrier in shared memory with phases, as mbarrier has: all but the last to arrive poll the phase.
extern "C" __global__ void phases(int* out, int rounds) {
    __shared__ int pending;
    __shared__ volatile int phase;
    __shared__ int s[128];
    int t = threadIdx.x, n = blockDim.x, x = t;
    if (t == 0) { pending = n; phase = 0; }
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        s[t] = x;
        __threadfence_block();
        for (int half = 0; half < 2; half++) {
            int seen = phase;
            if (atomicSub(&pending, 1) == 1) {
                pending = n;
                __threadfence_block();
                phase = seen + 1;
            } else {
                while (phase == seen);
            }
            if (half == 0) x = ((volatile int*)s)[(t + 1) % n] + r;
        }
    }
    out[t] = x;
}

extern "C" __global__ void never_unlocked(int* lock) {
    if (I == 0) *(volatile int*)lock = 1;
    while (atomicCAS(lock, 0, 1) != 0);
}

extern "C" __global__ void one_warp_missing(int* out) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 96;" ::: "memory");
    else if (threadIdx.x < 64) asm volatile("bar.sync 2, 96;" ::: "memory");
    out[I] = 1;
}

extern "C" __global__ void each_at_its_own(int* out) {
    asm volatile("bar.sync %0, 64;" ::"r"((threadIdx.x / 32) % 16) : "memory");
    out[I] = 1;
}

extern "C" __global__ void lanes_apart(int* out) {
    if (threadIdx.x & 1) asm volatile("barrier.sync 1;" ::: "memory");
    else asm volatile("barrier.sync 2;" ::: "memory");
    out[I] = 1;
}

extern "C" __global__ void warp_waits_for_itself(int* out) {
    if (threadIdx.x < 4) {
        __syncwarp();
        out[0] = 1;
    } else {
        asm volatile("barrier.sync 1;" ::: "memory");
        __syncwarp();
    }
    out[I] = 1;
}

// A lock inside a recursive function, which stays a call: lanes come to it at different depths, and one holds it while others spin.
__device__ __noinline__ int add_under_lock(int depth, int* lock, volatile int* total, int value) {
  if (depth > 0) {
    int inside = add_under_lock(depth - 1, lock, total, value);
    return inside + 1;
  }
  while (atomicCAS(lock, 0, 1) != 0) {}
  __threadfence();
  *total = *total + value;
  __threadfence();
  atomicExch(lock, 0);
  return 0;
}
extern "C" __global__ void lock_in_recursion(int* lock, int* total, int* depth, int spread) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  depth[i] = add_under_lock(i % spread, lock, total, i + 1);
}

// Taken inside a recursive call, released after it has returned to where other lanes of the warp would wait.
__device__ __noinline__ void take(int depth, int* lock) {
  if (depth > 0) { take(depth - 1, lock); __threadfence(); return; }
  while (atomicCAS(lock, 0, 1) != 0) {}
}
extern "C" __global__ void lock_across_return(int* lock, volatile int* total, int depth) {
  take(depth, lock);
  __threadfence();
  *total = *total + 1;
  __threadfence();
  atomicExch(lock, 0);
}
