// Red, green, blue to luma and two chroma differences, three floats a pixel side by side: each access of a warp spans 384 bytes.
struct Pixel {
  float x, y, z;
};

__global__ void color_convert(const Pixel* __restrict__ rgb, Pixel* __restrict__ ycc, int pixels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pixels) return;
  Pixel in = rgb[i], out;
  out.x = 0.299f * in.x + 0.587f * in.y + 0.114f * in.z;
  out.y = 0.564f * (in.z - out.x);
  out.z = 0.713f * (in.x - out.x);
  ycc[i] = out;
}
