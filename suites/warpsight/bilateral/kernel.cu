// Bilateral filter: a pixel becomes the mean of its 5 x 5 surroundings, weighted by closeness in place and in value. An exponential a
// neighbour keeps the special function units busy. Beyond the image its edge goes on.
#define RADIUS 2

__global__ void bilateral(const float* __restrict__ image, float* __restrict__ out, int width, int height, float space, float value) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float centre = image[y * width + x], sum = 0.0f, weights = 0.0f;
  for (int dy = -RADIUS; dy <= RADIUS; ++dy) {
    int row = min(max(y + dy, 0), height - 1);
    for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
      float other = image[row * width + min(max(x + dx, 0), width - 1)];
      float difference = other - centre;
      float weight = __expf(-space * (float)(dx * dx + dy * dy)) * __expf(-value * difference * difference);
      sum += weight * other;
      weights += weight;
    }
  }
  out[y * width + x] = sum / weights;
}
