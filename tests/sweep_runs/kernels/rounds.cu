extern "C" __global__ void rounds(float *a, int rounds) {
    __shared__ float part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i];
    for (int k = 0; k < rounds + (int)(blockIdx.x % 3); k++) {
        part[threadIdx.x] = x;
        __syncthreads();
        x = x * 1.5f + part[(threadIdx.x * 5 + k) & 63];
        __syncthreads();
    }
    a[i] = sqrtf(x);
}
