// Two modules of PTX. Kernels of the first declare variables within themselves, two of one name; the second has a variable of its own.
#include <cstdio>

static const char *const KERNELS_WITH_VARIABLES = R"(
.version 7.0
.target sm_75
.address_size 64
.global .align 4 .u32 shared_by_both = 7;
.visible .entry first(.param .u64 out)
{
    .reg .b64 a;
    .reg .b32 c, s, b;
    .global .align 4 .u32 count = 40;
    .const .align 4 .u32 step = 3;
    .global .align 8 .u64 where = generic(count);
    ld.param.u64 a, [out];
    ld.global.u32 c, [count];
    ld.const.u32 s, [step];
    ld.global.u32 b, [shared_by_both];
    add.u32 c, c, s;
    add.u32 b, b, c;
    st.global.u32 [a], b;
    ld.global.u64 a, [where];
    st.u32 [a], c;
    ret;
}
.visible .entry second(.param .u64 out)
{
    .reg .b64 a;
    .reg .b32 c;
    .global .align 4 .u32 count = 1000;
    ld.param.u64 a, [out];
    ld.global.u32 c, [count];
    add.u32 c, c, 1;
    st.global.u32 [count], c;
    st.global.u32 [a], c;
    ret;
}
)";
static const char *const MODULE_WITH_VARIABLE = R"(
.version 7.0
.target sm_75
.address_size 64
.global .align 4 .u32 other = 5;
.visible .entry third(.param .u64 out)
{
    .reg .b64 a;
    .reg .b32 c;
    ld.param.u64 a, [out];
    ld.global.u32 c, [other];
    add.u32 c, c, 1;
    st.global.u32 [other], c;
    st.global.u32 [a], c;
    ret;
}
)";

int main() {
  cudaLibrary_t kernels, variable;
  cudaLibraryLoadData(&kernels, KERNELS_WITH_VARIABLES, nullptr, nullptr, 0, nullptr, nullptr, 0);
  cudaLibraryLoadData(&variable, MODULE_WITH_VARIABLE, nullptr, nullptr, 0, nullptr, nullptr, 0);
  unsigned *out;
  cudaMallocManaged(&out, 4);
  void *arguments[] = {&out};
  for (const char *name : {"first", "third", "second", "first", "second", "third"}) {
    cudaKernel_t kernel = nullptr;
    cudaLibraryGetKernel(&kernel, *name == 't' ? variable : kernels, name);
    cudaLaunchKernel((const void *)kernel, 1, 1, arguments, 0, 0);
    cudaDeviceSynchronize();
    printf("%s %u\n", name, *out);
  }
}
