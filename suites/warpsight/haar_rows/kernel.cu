// One level of the Haar wavelet transform along rows: means to the left half of a row, differences to the right. A thread takes four
// neighbouring samples; there is next to nothing to compute.
__global__ void haar_rows(const float4* __restrict__ in, float2* __restrict__ out, int width) {
  int quarter = width / 4, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= quarter) return;
  float4 sample = in[blockIdx.y * quarter + column];
  const float scale = 0.70710678f;
  float2* row = out + blockIdx.y * 2 * quarter + column;
  row[0] = make_float2(scale * (sample.x + sample.y), scale * (sample.z + sample.w));
  row[quarter] = make_float2(scale * (sample.x - sample.y), scale * (sample.z - sample.w));
}
