// A second module, with a variable of the same name as the first's.
static __device__ int base = 1000;
static __global__ void fill(int *data) { data[threadIdx.x] = base + threadIdx.x; }
void fill_second(int *data) { fill<<<1, 32>>>(data); }
