// Forces between particles by lists of neighbours: a thread gathers the positions of its particle's neighbours, 16 bytes each, and sums
// a Lennard-Jones force. Particles are numbered as they lie in space, mostly: neighbours are near in memory, and much is computed.
__global__ void neighbour_forces(const float4* __restrict__ position, const int* __restrict__ neighbours, float4* __restrict__ force,
                                 int particles, int each, float cutoff) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= particles) return;
  float4 own = position[i];
  float fx = 0.0f, fy = 0.0f, fz = 0.0f, energy = 0.0f;
  for (int k = 0; k < each; ++k) {
    float4 other = position[neighbours[k * particles + i]];
    float dx = own.x - other.x, dy = own.y - other.y, dz = own.z - other.z;
    float square = dx * dx + dy * dy + dz * dz;
    if (square < cutoff) {
      float inverse2 = 1.0f / square, inverse6 = inverse2 * inverse2 * inverse2;
      float strength = 24.0f * inverse2 * inverse6 * (2.0f * inverse6 - 1.0f);
      fx += strength * dx;
      fy += strength * dy;
      fz += strength * dz;
      energy += 4.0f * inverse6 * (inverse6 - 1.0f);
    }
  }
  force[i] = make_float4(fx, fy, fz, energy);
}
