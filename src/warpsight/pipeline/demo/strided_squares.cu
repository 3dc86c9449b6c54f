// After Listing 1 of Wang et al., "MDM: The GPU Memory Divergence Model" (MICRO 2020): each thread squares `steps` neighbouring
// floats, starting `stride` floats after the thread before it. Stride 1 coalesces; stride 32 gives each thread a 128-byte line
// of its own, so that one load of a warp becomes 32 requests. The sum keeps the compiler from dropping the squares.
__global__ void strided_squares(const float* input, float* output, int stride, int steps) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int i = 0; i < steps; i++) {
    float value = input[(size_t)stride * thread + i];
    sum += value * value;
  }
  output[thread] = sum;
}
