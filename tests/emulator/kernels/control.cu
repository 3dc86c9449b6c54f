// Small kernels for the emulator's tests: control flow. Each is checked against NumPy or a value worked out by hand.
#define I (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void nested(const int* in, int* out, int n) {
    int i = I;
    if (i >= n) return;
    int x = in[i], r;
    if (x & 1) {
        if (x & 2) r = x * 3; else { r = x - 7; if (x & 4) r ^= 0x55; }
    } else if (x % 3 == 0) {
        r = -x;
    } else {
        r = 0;
        for (int k = 0; k < (x & 7); k++) { if (k == 5) continue; r += k * x; }
    }
    out[i] = r;
}

extern "C" __global__ void collatz(const int* in, int* out, int n) {
    int i = I;
    if (i < n) {
        unsigned x = in[i]; int steps = 0;
        while (x != 1) { x = (x & 1) ? 3 * x + 1 : x >> 1; steps++; if (steps == 100) break; }
        out[i] = steps;
    }
}

// Two loops with break, continue and a jump out of both.
extern "C" __global__ void search(const int* in, int* out, int n) {
    int i = I, found = -1;
    #pragma unroll 1
    for (int a = 0; a < 12 && found < 0; a++) {
        for (int b = a; b < 12; b++) {
            int s = in[a] + in[b];
            if (s % 2 == 0 && i % 3 == 0) continue;
            if (s == i) { found = a * 100 + b; goto out; }
            if (s > 4 * i + 50) break;
        }
    }
out:
    out[i] = found;
}

extern "C" __global__ void dense_switch(const int* in, int* out) {
    int i = I, x = in[i], r = x;
    switch (x) {
        case 0: r = 11; break;
        case 1: r = i * 7; // falls through
        case 2: r += 5; break;
        case 3: r = i / 3; break;
        case 4: r = -i; break;
        case 5: for (int k = 0; k < i % 5; k++) r = r * 3 + k; break;
        case 6: r ^= i; break;
        case 7: return;
        case 8: r = i % 7; break;
        case 9: r = i << 3; break;
        default: r = -1;
    }
    out[i] = r;
}

extern "C" __global__ void short_circuit(const int* in, int* out, int n) {
    int i = I;
    // The right sides would be out of bounds where the left sides fail.
    bool both = i < n && in[i] > 3;
    bool either = i >= n || in[i] == 1;
    out[i] = (both ? 1 : 0) + (either ? 2 : 0) + ((i > 5 && i < n && in[n - 1 - i] == 2) ? 4 : 0);
}

// Lanes that leave early are not waited for; each block has other ones.
extern "C" __global__ void early_return(int* out, int stay) {
    __shared__ int s[256];
    int t = threadIdx.x;
    if ((t * 5 + blockIdx.x) % 8 >= stay) { out[I] = -1; return; }
    s[t] = t * 10;
    __syncthreads();
    int sum = 0;
    #pragma unroll 1
    for (int k = 0; k < 256; k++) if ((k * 5 + blockIdx.x) % 8 < stay) sum += s[k];
    __syncthreads();
    s[t] = sum + t;
    __syncthreads();
    out[I] = s[t];
}

// Leaving from inside a loop whose length differs by lane: those that stay have not met again when they come to the barrier.
extern "C" __global__ void return_in_loop(const int* in, int* out) {
    __shared__ int s[128];
    int t = threadIdx.x, sum = 0;
    s[t] = 1000;
    __syncthreads();
    for (int k = 0; k < in[t]; k++) {
        if (k * 13 + t == 60) { out[I] = -k; s[t] = k; return; }
        sum += k;
    }
    atomicAdd(&s[(t + 1) % 128], sum);
    __syncthreads();
    for (int round = 0; round < 3; round++) {
        int v = s[(t + 7) % 128];
        __syncthreads();
        atomicAdd(&s[t], v & 3);
        __syncthreads();
    }
    out[I] = s[(t + 1) % 128] + s[(t + 127) % 128];
}

// The barrier in a branch: threads that skip it run to the end (arrivals are counted by thread from sm_70 on).
extern "C" __global__ void barrier_in_branch(int* out, int n) {
    __shared__ int s[96];
    int t = threadIdx.x, kept = t * 3;
    if (t < n) {
        s[t] = t + 1;
        __syncthreads();
        kept += s[n - 1 - t];
    }
    out[I] = kept;
}

extern "C" __global__ void different_barriers(int* out) {
    int t = threadIdx.x;
    if (t & 1) { out[t] = 1; __syncthreads(); out[t] += 5; }
    else { out[t] = 2; __syncthreads(); out[t] *= 7; }
}

extern "C" __global__ void votes_of_block(const int* in, int* out) {
    int i = I, x = in[i];
    int count = __syncthreads_count(x > 4), any = __syncthreads_or(x == 9), all = __syncthreads_and(x < 9);
    int more = 0;
    for (int k = 0; k < 4; k++) more = more * 37 + __syncthreads_count(x == k);
    out[i] = count + 1000 * (any != 0) + 2000 * (all != 0) + 10000 * more;
}

__device__ __noinline__ float twice(float x) { return x * 2 + 1; }
extern "C" __global__ void calls(float* out) { out[I] = twice(out[I]); }

extern "C" __global__ void shapes(int* out) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int at = block * blockDim.x * blockDim.y * blockDim.z + thread;
    int* o = out + 6 * at;
    o[0] = threadIdx.x; o[1] = threadIdx.y; o[2] = threadIdx.z; o[3] = blockIdx.x; o[4] = blockIdx.y; o[5] = blockIdx.z;
}

// Primes below 64 by trial division with an early way out of an inner loop, then a do-while.
extern "C" __global__ void primes(int* out) {
    int i = I, prime = i > 1;
    for (int k = 2; k * k <= i; k++) if (i % k == 0) { prime = 0; break; }
    int x = i, digits = 0;
    do { digits++; x /= 10; } while (x);
    out[i] = prime * 10 + digits;
}
