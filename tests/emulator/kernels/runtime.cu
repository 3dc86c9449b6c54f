// Kernels that call the device runtime. Tests name the lines, so keep them where they are.
// Compiled with the bundled compiler, whose headers declare them.
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <new>
#define I (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void prints(int *out) {
    if (I % 3 == 1) out[I] = printf("%d of block %u: %5.2f %s %c %lld\n", (int)threadIdx.x, blockIdx.x, I * 0.5, "text", 'x', 1LL << 40);
}
extern "C" __global__ void prints_strings(const char *given, int *out) {
    __shared__ char s[8];
    char l[4] = {'l', (char)('0' + threadIdx.x), 0, 0};
    s[0] = 's'; s[1] = 0;
    out[0] = printf("%s|%s|%s|%-4s|%%\n", given, s, l, "c");
    out[1] = printf("plain\n");
    out[2] = printf(nullptr);
}
extern "C" __global__ void prints_bad_string(const char *given) { printf("%s", given); }  // line 20
extern "C" __global__ void sums_lists(int *out, int n) {
    struct Node { int value; Node *next; };
    Node *head = nullptr;
    for (int k = 0; k < n; k++) { Node *node = (Node *)malloc(sizeof(Node)); node->value = k * (I + 1); node->next = head; head = node; }
    int sum = 0;
    while (head) { sum += head->value; Node *next = head->next; free(head); head = next; }
    out[I] = sum;
}
extern "C" __global__ void takes(long long bytes, unsigned long long *out) { out[I] = (unsigned long long)malloc(bytes); }
struct alignas(128) Wide { int x[40]; };
extern "C" __global__ void aligned(unsigned long long *out) { Wide *w = new Wide; w->x[39] = 1; out[I] = (unsigned long long)w; delete w; }
extern "C" __global__ void misuses(int *out, int what) {
    int *p = (int *)malloc(16);  // line 33
    p[0] = 3;
    if (what == 1) p[4] = 1;  // line 35
    free(p);  // line 36
    if (what == 2) out[0] = p[0];  // line 37
    if (what == 3) free(p);  // line 38
    if (what == 4) free(out);  // line 39
    if (what == 5) free(p + 1);  // line 40
    free(nullptr);
}
extern "C" __global__ void keeps_site(int *out) {
    int *p[2];
    p[0] = (int *)malloc(64); p[1] = (int *)malloc(64);
    int sum = 0;
    for (int k = 0; k < 3; k++) {
        p[k & 1][threadIdx.x] = k;  // line 48: in the third turn p[0] is free, and was the allocation last hit but one
        sum += k;
        if (k < 2) free(p[k]);
    }
    out[0] = sum;
}
extern "C" __global__ void asserts(const int *limit, int *out) {
    assert(I < (unsigned)limit[0]);  // line 55
    out[I] = I;
}
extern "C" __global__ void breaks(int *out, int at) { if (I == at) __brkpt(); out[I] = 1; }  // line 58
// the next one has variables of different sizes
extern "C" __global__ void shared_misaligned(int *out, int byte) {
    __shared__ int first[8]; __shared__ int second[16];
    if (threadIdx.x < 8) first[threadIdx.x] = 1;
    second[threadIdx.x & 15] = 2;
    __syncthreads();
    out[I] = *(volatile int *)((char *)second + byte) + first[1];  // line 65
}
