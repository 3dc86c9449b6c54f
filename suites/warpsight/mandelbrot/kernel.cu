// Steps until a point of the plane leaves the circle of radius 2 under z -> z^2 + c: lanes leave at different times, and so do blocks.
__global__ void mandelbrot(unsigned short* __restrict__ steps, int width, int height, int most) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  double re = -2.25 + 3.0 * x / width, im = -1.25 + 2.5 * y / height;
  double zr = 0.0, zi = 0.0;
  int step = 0;
  while (step < most && zr * zr + zi * zi <= 4.0) {
    double next = zr * zr - zi * zi + re;
    zi = 2.0 * zr * zi + im;
    zr = next;
    ++step;
  }
  steps[y * width + x] = step;
}
