// Calls that stay calls: recursion, pointers to functions, virtual functions, aggregates by value, barriers inside functions.

#define KERNEL extern "C" __global__ void
#define FUNCTION __device__ __noinline__

FUNCTION int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
KERNEL fibonacci_numbers(int *out, const int *n) { out[threadIdx.x] = fibonacci(n[threadIdx.x]); }

// Not a loop in disguise: the product is of what comes back.
FUNCTION unsigned factorial(unsigned n) { return n <= 1 ? 1 : n * factorial(n - 1) + (n & 1); }
KERNEL factorials(unsigned *out) { out[threadIdx.x] = factorial(threadIdx.x % 13); }

FUNCTION int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}
KERNEL ackermann_numbers(int *out) { out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x % 7); }

FUNCTION void quicksort(float *a, int low, int high) {
    if (low >= high) return;
    float pivot = a[(low + high) / 2];
    int i = low, j = high;
    while (i <= j) {
        while (a[i] < pivot) i++;
        while (a[j] > pivot) j--;
        if (i <= j) { float t = a[i]; a[i] = a[j]; a[j] = t; i++; j--; }
    }
    quicksort(a, low, j);
    quicksort(a, i, high);
}
KERNEL sort_rows(float *a, const int *length, int width) { quicksort(a + blockIdx.x * blockDim.x * width + threadIdx.x * width, 0, length[blockIdx.x * blockDim.x + threadIdx.x] - 1); }

FUNCTION long long odd(int n, int *seen);
FUNCTION long long even(int n, int *seen) {
    *seen += n;
    if (n == 0) return 1;
    return odd(n - 1, seen) + (n % 5 == 2);
}
FUNCTION long long odd(int n, int *seen) {
    *seen -= 1;
    if (n == 0) return 0;
    return even(n - 1, seen) * 3;
}
KERNEL mutual(long long *out, int *seen) {
    int count = 0;
    out[threadIdx.x] = even(threadIdx.x * 7 % 23, &count);
    seen[threadIdx.x] = count;
}

// A local array of each activation, read after the inner ones have written theirs.
FUNCTION int nested_arrays(int n, int step) {
    int own[4];
    for (int k = 0; k < 4; k++) own[k] = n * 10 + k;
    own[n & 3] += step;
    if (n == 0) return own[0];
    int inner = nested_arrays(n - 1, step + own[(n + 1) & 3]);
    return inner + own[inner & 3];
}
KERNEL local_arrays(int *out) { out[threadIdx.x] = nested_arrays(threadIdx.x % 9, threadIdx.x); }

typedef int (*Unary)(int);
FUNCTION int add_one(int x) { return x + 1; }
FUNCTION int twice(int x) { return 2 * x; }
FUNCTION int climb(int x) { return x <= 0 ? 0 : x + climb(x - 3); }
FUNCTION int collatz(int x) { int n = 0; while (x != 1) { x = x & 1 ? 3 * x + 1 : x >> 1; if (++n == 40) return -1; } return n; }
__device__ Unary table[4] = {add_one, twice, climb, collatz};
__constant__ Unary fixed[2] = {twice, add_one};
KERNEL by_table(int *out, const int *which) { int i = threadIdx.x; out[i] = table[which[i]](i + 1) * 1000 + fixed[i & 1](i); }

FUNCTION int apply(Unary f, int x, int times) { for (int k = 0; k < times; k++) x = f(x); return x; }
KERNEL as_argument(int *out) { int i = threadIdx.x; out[i] = apply(i % 3 ? add_one : twice, i, i % 5) + apply(i & 4 ? climb : twice, 5, 2); }

KERNEL give_pointers(Unary *where) { where[threadIdx.x] = table[threadIdx.x & 1]; }
KERNEL take_pointers(const Unary *where, int *out) { out[threadIdx.x] = where[threadIdx.x](threadIdx.x + 5); }
KERNEL call_number(int *out, unsigned long long number) { *out = ((Unary)number)(3); }

struct Shape {
    int side;
    __device__ virtual int area(int scale) const = 0;
    __device__ virtual int corners() const { return 0; }
};
struct Square : Shape {
    __device__ int area(int scale) const override { return side * side * scale; }
    __device__ int corners() const override { return 4; }
};
struct Box : Square {
    int depth;
    __device__ int area(int scale) const override { return 2 * side * side * scale + 4 * side * depth * scale; }
};
struct Round : Shape {
    __device__ int area(int scale) const override { return side * scale < 4 ? side : 3 * side * side * scale; }
};
FUNCTION int measure(const Shape *s, int scale) { return s->area(scale) * 10 + s->corners(); }
KERNEL shapes(int *out) {
    int i = threadIdx.x;
    Square square; Box box; Round round;
    square.side = i; box.side = i + 1; box.depth = 2; round.side = i + 2;
    const Shape *some = i % 3 == 0 ? (const Shape *)&square : i % 3 == 1 ? (const Shape *)&box : (const Shape *)&round;
    out[i] = measure(some, 1 + (i & 1));
}

struct Pack { char tag[5]; short s; double d; long long w[2]; };
FUNCTION Pack turn(Pack p, int by) {
    Pack r = p;
    r.tag[by % 5] = p.tag[(by + 1) % 5] + 1;
    r.s += by; r.d *= by; r.w[by & 1] = p.w[0] - p.w[1];
    if (by > 2) return turn(r, by - 1);
    return r;
}
KERNEL aggregates(double *out) {
    int i = threadIdx.x;
    Pack p;
    for (int k = 0; k < 5; k++) p.tag[k] = i + k;
    p.s = -i; p.d = 0.5 * i; p.w[0] = 1000 * i; p.w[1] = i;
    Pack q = turn(p, i % 6);
    double tags = 0;
    for (int k = 0; k < 5; k++) tags = tags * 128 + q.tag[k];
    out[4 * i] = tags; out[4 * i + 1] = q.s; out[4 * i + 2] = q.d; out[4 * i + 3] = (double)(q.w[0] * 7 + q.w[1]);
}

FUNCTION float2 rotate_by(float2 v, int quarter, float4 *sum, bool flip) {
    if (quarter <= 0) return flip ? make_float2(-v.x, v.y) : v;
    sum->x += v.x; sum->w += 1;
    return rotate_by(make_float2(-v.y, v.x), quarter - 1, sum, !flip);
}
KERNEL vectors(float *out) {
    int i = threadIdx.x;
    float4 sum = make_float4(0, 0, 0, 0);
    float2 v = rotate_by(make_float2(i, 2 * i + 1), i % 7, &sum, i & 8);
    out[4 * i] = v.x; out[4 * i + 1] = v.y; out[4 * i + 2] = sum.x; out[4 * i + 3] = sum.w;
}

// All threads of the block call it: a sum over the block by halves, a barrier in each activation.
FUNCTION int block_sum(int *s, int half) {
    int i = threadIdx.x;
    if (i < half) s[i] += s[i + half];
    __syncthreads();
    return half == 1 ? s[0] : block_sum(s, half / 2) + half;
}
KERNEL sums(int *out) {
    __shared__ int s[128];
    int i = threadIdx.x, before = i * 3;
    s[i] = i * i + blockIdx.x;
    __syncthreads();
    out[blockIdx.x * 128 + i] = block_sum(s, 64) + before;
}

// Lanes reach one barrier through two calls, and go back to where each came from.
typedef int (*Exchange)(int *, int, int);
FUNCTION int exchange(int *s, int x, int deep) {
    if (deep > 0) return exchange(s, x + 1, deep - 1) * 2 + deep;
    s[threadIdx.x] = x;
    __syncthreads();
    return s[threadIdx.x ^ 1];
}
__device__ Exchange exchanger = exchange;
KERNEL meet_in_function(int *out) {
    __shared__ int s[64];
    int i = threadIdx.x, r;
    if (i % 3) r = exchange(s, i, i % 4) + 100000; else r = exchanger(s, -i, i % 5) + 7;
    out[i] = r;
}

FUNCTION void leave_or_go_on(int *out, int n) {
    out[threadIdx.x] += n;
    if (n == (int)threadIdx.x % 4) asm volatile("exit;");
    if (n < 8) leave_or_go_on(out, n + 2);
    out[threadIdx.x] += 100;
}
KERNEL leave_from_within(int *out) { leave_or_go_on(out, 1); out[threadIdx.x] += 1000; }

FUNCTION unsigned dive(unsigned n) { return n == 0 ? 1 : dive(n - 1) * 5 + n; }
KERNEL depths(unsigned *out, int n) { out[threadIdx.x] = dive(n - (int)threadIdx.x % 2); }
