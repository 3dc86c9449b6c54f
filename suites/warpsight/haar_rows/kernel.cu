// One level of the Haar wavelet transform along rows: means to the left half of a row, differences to the right. A thread takes two
// neighbouring samples; there is next to nothing to compute.
__global__ void haar_rows(const float* __restrict__ in, float* __restrict__ out, int width) {
  int half = width / 2, row = blockIdx.y * width, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= half) return;
  float first = in[row + 2 * column], second = in[row + 2 * column + 1];
  out[row + column] = 0.70710678f * (first + second);
  out[row + half + column] = 0.70710678f * (first - second);
}
