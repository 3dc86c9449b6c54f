/* A library with the functions of NVIDIA's driver that run kernels, and a GPU that knows a few kernels by their names.
 *
 * Memory is the host's, and every address is checked against what was allocated. Time is a clock of its own: each kernel takes a time
 * of its own, whatever it does. What was called is written to the file that FAKE_GPU_LOG names. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NO_CONTEXT = 201, INVALID_DEVICE = 101, BAD_PTX = 218, BAD_VERSION = 222, NOT_FOUND = 500, ILLEGAL = 700 };
enum { MOST = 4096, DEVICE = 7 };

struct block { char *start; size_t size; };
struct function { char name[256]; };
static struct block blocks[MOST];
static int used, fault, current, dynamic_limit;
static double now;                 /* nanoseconds */
static double events[MOST];
static int event_count;

static void note(const char *form, ...) {
  const char *path = getenv("FAKE_GPU_LOG");
  if (!path) return;
  FILE *file = fopen(path, "a");
  va_list rest;
  va_start(rest, form);
  vfprintf(file, form, rest);
  va_end(rest);
  fputc('\n', file);
  fclose(file);
}

static int inside(uint64_t address, size_t size) {
  for (int i = 0; i < used; i++)
    if ((char *)address >= blocks[i].start && (char *)address + size <= blocks[i].start + blocks[i].size) return 1;
  return 0;
}

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : SUCCESS; }
int cuDriverGetVersion(int *version) { *version = getenv("FAKE_GPU_CUDA") ? atoi(getenv("FAKE_GPU_CUDA")) : 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = DEVICE; return ordinal ? INVALID_DEVICE : 0; }
int cuDeviceGetName(char *name, int length, int device) {
  strncpy(name, getenv("FAKE_GPU_NAME") ? getenv("FAKE_GPU_NAME") : "NVIDIA H100 80GB HBM3", length);
  return device == DEVICE ? 0 : INVALID_DEVICE;
}
int cuDeviceGetPCIBusId(char *bus, int length, int device) { strncpy(bus, "0000:3b:00.0", length); return device == DEVICE ? 0 : INVALID_DEVICE; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = (size_t)80 << 30; return device == DEVICE ? 0 : INVALID_DEVICE; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  static const int told[][2] = {{1, 1024}, {10, 32}, {13, 1980000}, {16, 132}, {36, 2619000}, {37, 5120}, {38, 52428800}, {39, 2048},
                                {75, 9}, {76, 0}, {81, 233472}, {82, 65536}, {97, 232448}, {106, 32}, {111, 1024}};
  if (device != DEVICE) return INVALID_DEVICE;
  for (size_t i = 0; i < sizeof told / sizeof *told; i++)
    if (told[i][0] == attribute) {
      *value = told[i][1];
      /* a sweep over four such L2s would take the test's time: the fake one is small */
      if (attribute == 38 && !getenv("FAKE_GPU_WHOLE_L2")) *value = 1 << 20;
      return 0;
    }
  return INVALID_VALUE;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &current; return device == DEVICE ? 0 : INVALID_DEVICE; }
int cuCtxSetCurrent(void *context) { current = context == &current; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) {
  note("release, %d allocations left", used);
  current = fault = used = event_count = dynamic_limit = 0;
  return device == DEVICE ? 0 : INVALID_DEVICE;
}
int cuCtxSynchronize(void) { return fault; }

int cuMemAlloc_v2(uint64_t *address, size_t size) {
  if (!current) return NO_CONTEXT;
  if (fault) return fault;
  if (!size || used == MOST) return INVALID_VALUE;
  blocks[used].start = aligned_alloc(256, (size + 255) / 256 * 256);
  blocks[used].size = size;
  memset(blocks[used].start, 0xa5, size);
  *address = (uint64_t)blocks[used++].start;
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  for (int i = 0; i < used; i++)
    if (blocks[i].start == (char *)address) {
      free(blocks[i].start);
      blocks[i] = blocks[--used];
      return fault;
    }
  return INVALID_VALUE;
}
static int move(void *to, const void *from, uint64_t checked, size_t size) {
  if (fault) return fault;
  if (!current) return NO_CONTEXT;
  if (!inside(checked, size)) return INVALID_VALUE;
  memcpy(to, from, size);
  return 0;
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { return move((void *)to, from, to, size); }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { return move(to, (void *)from, from, size); }
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream) {
  note("copy");
  if (stream || !inside(from, size)) return INVALID_VALUE;
  return move((void *)to, (void *)from, to, size);
}
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t size, void *stream) {
  if (stream || !inside(to, size)) return INVALID_VALUE;
  memset((void *)to, byte, size);
  return fault;
}

int cuModuleLoadDataEx(void **module, const char *image, unsigned count, int *options, void **values) {
  if (!current) return NO_CONTEXT;
  if (count != 4 || options[0] != 3 || options[1] != 4 || options[2] != 5 || options[3] != 6) return INVALID_VALUE;
  if (strstr(image, ".version 9.0") && getenv("FAKE_GPU_CUDA") && atoi(getenv("FAKE_GPU_CUDA")) < 13000) return BAD_VERSION;
  if (strstr(image, "unknown.opcode")) {
    snprintf(values[2], (size_t)values[3], "ptxas application ptx input, line 7; error   : Not a name of any known instruction: 'unknown'");
    return BAD_PTX;
  }
  *module = strdup(image);
  return 0;
}
int cuModuleUnload(void *module) { free(module); return fault; }
int cuModuleGetFunction(void **found, void *module, const char *name) {
  char wanted[300];
  snprintf(wanted, sizeof wanted, ".entry %s(", name);
  if (!strstr(module, wanted)) return NOT_FOUND;
  struct function *made = calloc(1, sizeof *made);
  strncpy(made->name, name, sizeof made->name - 1);
  *found = made;
  return 0;
}
int cuFuncGetAttribute(int *value, int attribute, struct function *function) {
  *value = attribute == 4 ? 16 : 0; /* registers */
  return function ? 0 : INVALID_VALUE;
}
int cuFuncSetAttribute(struct function *function, int attribute, int value) {
  note("most dynamic shared memory of %s: %d", function->name, value);
  if (attribute != 8 || value > 232448) return INVALID_VALUE;
  dynamic_limit = value;
  return 0;
}

static int twice(void **p, float by, int division) {
  const float *x = *(float **)p[0];
  float *y = *(float **)p[1];
  int *big = *(int **)p[2], n = *(int *)p[3];
  if (!inside((uint64_t)x, 4 * (size_t)n) || !inside((uint64_t)y, 4 * (size_t)n) || !inside((uint64_t)big, 4)) return ILLEGAL;
  for (int i = 0; i < n; i++) {
    y[i] = division ? x[i] / by : by * x[i];
    if (x[i] > 0.5f) ++*big;
  }
  return 0;
}
int cuLaunchKernel(struct function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  const char *name = function->name;
  note("launch %s %ux%ux%u of %ux%ux%u, %u", name, gx, gy, gz, bx, by, bz, shared);
  if (fault) return fault;
  if (stream || extra || !parameters || bx * by * bz > 1024) return INVALID_VALUE;
  if (shared > 49152 && shared > (unsigned)dynamic_limit) return INVALID_VALUE;
  if (!strcmp(name, "warpsight_empty")) now += 2000;
  else if (!strcmp(name, "chase")) **(uint64_t **)parameters[6] = 30 * (uint64_t)*(int *)parameters[5];
  else if (!strcmp(name, "misses")) **(uint64_t **)parameters[4] = 400 + *(int *)parameters[3];
  else if (!strcmp(name, "stream")) now += 1000 + 16 * *(uint64_t *)parameters[1] / 2000.0;                        /* 2 TB/s */
  else if (!strcmp(name, "resident")) now += 1000 + 16 * *(uint64_t *)parameters[1] * *(int *)parameters[2] * gx / 4000.0;
  else if (!strcmp(name, "warpsight_sweep")) now += 70000;
  else if (!strcmp(name, "warpsight_clock")) {
    uint64_t *out = *(uint64_t **)parameters[0], wait = *(uint64_t *)parameters[1];
    out[0] = wait * 3 / 2; /* 1.5 GHz */
    out[1] = wait;
    now += wait;
  } else if (strstr(name, "twice")) {
    fault = twice(parameters, 2, 0);
    now += 12000;
  } else if (strstr(name, "tenth")) {
    fault = twice(parameters, 10, 1);
    now += 12000;
  } else if (strstr(name, "stuck")) sleep(60);
  else if (strstr(name, "dies")) abort();
  else fault = ILLEGAL;
  return 0;
}

int cuEventCreate(void **event, unsigned flags) { *event = &events[event_count++]; return flags || event_count == MOST ? INVALID_VALUE : 0; }
int cuEventDestroy_v2(void *event) { return event ? fault : INVALID_VALUE; }
int cuEventRecord(double *event, void *stream) { note("record"); *event = now; return stream ? INVALID_VALUE : fault; }
int cuEventSynchronize(double *event) { return event ? fault : INVALID_VALUE; }
int cuEventElapsedTime(float *milliseconds, double *first, double *second) { *milliseconds = (*second - *first) / 1e6; return fault; }

int cuGetErrorName(int error, const char **name) {
  *name = error == ILLEGAL ? "CUDA_ERROR_ILLEGAL_ADDRESS" : error == BAD_PTX ? "CUDA_ERROR_INVALID_PTX" : NULL;
  return *name ? 0 : INVALID_VALUE;
}
int cuGetErrorString(int error, const char **text) {
  *text = error == ILLEGAL ? "an illegal memory access was encountered" : NULL;
  return *text ? 0 : INVALID_VALUE;
}
