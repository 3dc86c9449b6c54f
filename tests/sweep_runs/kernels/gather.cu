extern "C" __global__ void gather(const int *from, const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[from[i]] * 2.0f + in[from[(i * 7) % n]];
}
