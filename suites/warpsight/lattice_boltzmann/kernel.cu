// One time step of a lattice-Boltzmann fluid with nine directions, pulled: a thread collects what flows into its cell, lets it relax and
// writes it back. The nine values of a cell stand together, 36 bytes from those of the next: loads and stores diverge alike. The grid
// is periodic.
__global__ void lattice_boltzmann(const float* __restrict__ from, float* __restrict__ to, int width, int height, float relaxation) {
  const int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  float f[9], density = 0.0f, ux = 0.0f, uy = 0.0f;
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    int px = x - ex[k], py = y - ey[k];
    px += px < 0 ? width : px >= width ? -width : 0;
    py += py < 0 ? height : py >= height ? -height : 0;
    f[k] = from[(py * width + px) * 9 + k];
    density += f[k];
    ux += f[k] * (float)ex[k];
    uy += f[k] * (float)ey[k];
  }
  ux /= density;
  uy /= density;
  float still = 1.0f - 1.5f * (ux * ux + uy * uy);
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    float along = 3.0f * ((float)ex[k] * ux + (float)ey[k] * uy);
    float weight = k == 0 ? 4.0f / 9.0f : k < 5 ? 1.0f / 9.0f : 1.0f / 36.0f;
    float rest = weight * density * (still + along + 0.5f * along * along);
    to[(y * width + x) * 9 + k] = f[k] + relaxation * (rest - f[k]);
  }
}
