/* A library with the functions of NVIDIA's driver that `gpus from-device` asks for, and one GPU: what a test wants to hear. */
#include <string.h>

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 7; return ordinal == 0 ? 0 : 101; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Tesla V100-SXM2-16GB", length); return device == 7 ? 0 : 101; }
int cuDeviceGetPCIBusId(char *bus, int length, int device) { strncpy(bus, "0000:00:1e.0", length); return device == 7 ? 0 : 101; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  if (device != 7) return 101;
  switch (attribute) {
    case 1: *value = 1024; return 0;      /* threads of a block */
    case 10: *value = 32; return 0;       /* warp size */
    case 13: *value = 1530000; return 0;  /* clock, kHz */
    case 16: *value = 80; return 0;       /* multiprocessors */
    case 36: *value = 877000; return 0;   /* memory clock, kHz */
    case 37: *value = 4096; return 0;     /* memory bus, bits */
    case 38: *value = 6291456; return 0;  /* L2 */
    case 39: *value = 2048; return 0;     /* threads of a multiprocessor */
    case 75: *value = 7; return 0;        /* compute capability */
    case 76: *value = 0; return 0;
    case 81: *value = 98304; return 0;    /* shared memory of a multiprocessor */
    case 82: *value = 65536; return 0;    /* registers of a multiprocessor */
    case 97: *value = 98304; return 0;    /* shared memory of a block, at most */
    case 106: *value = 32; return 0;      /* blocks of a multiprocessor */
    default: return 1;                    /* CUDA_ERROR_INVALID_VALUE */
  }
}
