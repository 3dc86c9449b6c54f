// Memory pools: what they count, limits, the device's current pool, and an error. Prints the counts.
#include <cstdint>
#include <cstdio>

__global__ void twice(int *x) { x[threadIdx.x] = 2 * threadIdx.x; }

static unsigned long long get(cudaMemPool_t pool, cudaMemPoolAttr attribute) {
  uint64_t value = 0;
  cudaMemPoolGetAttribute(pool, attribute, &value);
  return value;
}

static void show(const char *name, cudaMemPool_t pool) {
  printf("%s: used %llu, most %llu, reserved %llu\n", name, get(pool, cudaMemPoolAttrUsedMemCurrent), get(pool, cudaMemPoolAttrUsedMemHigh),
         get(pool, cudaMemPoolAttrReservedMemCurrent));
}

int main() {
  int supported = 0;
  cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0);
  cudaMemPool_t first, own, now;
  cudaDeviceGetDefaultMemPool(&first, 0);
  uint64_t keep = UINT64_MAX;
  cudaMemPoolSetAttribute(first, cudaMemPoolAttrReleaseThreshold, &keep);
  printf("supported %d, threshold kept %d\n", supported, get(first, cudaMemPoolAttrReleaseThreshold) == UINT64_MAX);

  cudaStream_t stream;
  cudaStreamCreate(&stream);
  int *a, *b, *c, last = 0;
  cudaMallocAsync(&a, 3 << 20, stream);
  cudaMallocAsync(&b, 100, stream);
  twice<<<1, 25, 0, stream>>>(b);
  cudaMemcpyAsync(&last, b + 24, 4, cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(a, stream);
  cudaStreamSynchronize(stream);
  printf("last %d\n", last);
  show("default", first);

  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 0};
  props.maxSize = 1 << 20;
  printf("create %d\n", cudaMemPoolCreate(&own, &props));
  cudaDeviceSetMemPool(0, own);
  cudaDeviceGetMemPool(&now, 0);
  cudaMallocAsync(&c, 1 << 19, stream);
  show("own", own);
  printf("current %d, past its limit: %s\n", now == own, cudaGetErrorName(cudaMallocFromPoolAsync(&a, (1 << 19) + 1, own, stream)));
  cudaMemAccessFlags flags;
  cudaMemPoolGetAccess(&flags, own, &props.location);
  printf("access %d, destroy %d\n", flags, cudaMemPoolDestroy(own));
  cudaDeviceGetMemPool(&now, 0);
  printf("default again %d, its own memory %d, destroyed %s\n", now == first, cudaFreeAsync(c, stream),
         cudaGetErrorName(cudaMemPoolTrimTo(own, 0)));
  cudaFree(b);
  show("default", first);
#if CUDART_VERSION >= 13000  // the pools of a place and type of memory
  cudaMemLocation place = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0}, other = {cudaMemLocationTypeDevice, 1};
  cudaMemPool_t by_place = nullptr, set = nullptr;
  cudaMemGetDefaultMemPool(&by_place, &place, cudaMemAllocationTypePinned);
  props.maxSize = 0;
  cudaMemPoolCreate(&own, &props);
  int failed = cudaMemSetMemPool(&place, cudaMemAllocationTypePinned, own);
  cudaDeviceGetMemPool(&set, 0);
  cudaMemGetMemPool(&now, &place, cudaMemAllocationTypePinned);
  printf("by place %d, set %d %d %d, other %s, host %s\n", by_place == first, failed, set == own, now == own,
         cudaGetErrorName(cudaMemGetMemPool(&now, &other, cudaMemAllocationTypePinned)),
         cudaGetErrorName(cudaMemGetDefaultMemPool(&now, &host, cudaMemAllocationTypePinned)));
#endif
  props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  printf("shared %s\n", cudaGetErrorName(cudaMemPoolCreate(&own, &props)));
}
