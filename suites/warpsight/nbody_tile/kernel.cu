// Accelerations of bodies under gravity, all pairs: sources pass through shared memory in tiles. One block of two warps on an SM: the
// chain of arithmetic is bare.
#define TILE 64

__global__ void nbody_tile(const float4* __restrict__ bodies, float4* __restrict__ acceleration, int sources, float softening) {
  __shared__ float4 tile[TILE];
  int body = blockIdx.x * TILE + threadIdx.x;
  float4 own = bodies[body];
  float ax = 0.0f, ay = 0.0f, az = 0.0f;
  for (int first = 0; first < sources; first += TILE) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < TILE; ++i) {
      float dx = tile[i].x - own.x, dy = tile[i].y - own.y, dz = tile[i].z - own.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
      float pull = tile[i].w * inverse * inverse * inverse;
      ax += pull * dx;
      ay += pull * dy;
      az += pull * dz;
    }
    __syncthreads();
  }
  acceleration[body] = make_float4(ax, ay, az, 0.0f);
}
