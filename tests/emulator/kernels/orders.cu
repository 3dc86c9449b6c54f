// Kernels whose results depend on an order that a GPU leaves open, and kernels whose do not.

extern "C" __global__ void last_block(int *out) { out[threadIdx.x] = blockIdx.x; }

extern "C" __global__ void last_lane(int *out) { out[0] = threadIdx.x; }

extern "C" __global__ void last_warp(int *out) {
    if (threadIdx.x % 32 == 0)
        out[0] = threadIdx.x / 32;
}

extern "C" __global__ void last_side(int *out) {
    if (threadIdx.x & 1)
        out[0] = 1;
    else
        out[0] = 2;
}

extern "C" __global__ void neighbours(int *out, int waits) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = t + 1;
    if (waits)
        __syncwarp();
    out[t] = s[31 - t];
}

extern "C" __global__ void sum_of_floats(float *out) { atomicAdd(out, 1.0f / (1 + threadIdx.x + blockIdx.x * blockDim.x)); }

extern "C" __global__ void places(int *count, int *out) { out[atomicAdd(count, 1)] = threadIdx.x + blockIdx.x * blockDim.x; }

__device__ int variable;
extern "C" __global__ void writes_variable(int *out) {
    variable = blockIdx.x;
    out[blockIdx.x] = 1;
}

extern "C" __global__ void right(int *out, int *count) {  // a reduction in a block, a last block that adds up, and a lock
    __shared__ int s[64];
    __shared__ bool last;
    int t = threadIdx.x;
    s[t] = t + blockIdx.x;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half)
            s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) {
        out[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(count, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0)
        for (unsigned k = 0; k < gridDim.x; ++k)
            out[gridDim.x] += out[k];
    int value = t;
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffff, value, step);
    if (t % 32 == 0) {
        while (atomicCAS(count + 1, 0, 1) != 0) {}
        out[gridDim.x + 1] += value;
        __threadfence();
        atomicExch(count + 1, 0);
    }
}

extern "C" __global__ void waits_for_later_block(int *out, volatile int *flag) {
    if (blockIdx.x == 0)
        while (flag[0] == 0) {}
    else
        flag[0] = 1;
    out[blockIdx.x] = 1;
}

extern "C" __global__ void fails_backwards(int *out) {
    if (atomicAdd(out, 1) == 0 && blockIdx.x != 0)
        __trap();
}
