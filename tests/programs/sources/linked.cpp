// Several images linked by the driver; blocks that a kernel is not compiled for; and the maps of images. Prints what each call gives.
#include <cuda.h>
#include <cstdio>
#include <cstring>
#include <string>

static const std::string HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n";
static const std::string KERNEL = HEAD + R"(
.extern .func (.param .b32 result) changed(.param .b32 value);
.extern .global .align 4 .u32 added;
.visible .entry change(.param .u64 out) .reqntid 32, 2, 1
{
    .reg .b32 %r<4>; .reg .b64 %q<4>;
    ld.param.u64 %q1, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mad.lo.u32 %r1, %r2, 32, %r1;
    mul.wide.u32 %q2, %r1, 4; add.u64 %q1, %q1, %q2;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), changed, (a); ld.param.b32 %r2, [b]; }
    ld.global.u32 %r3, [added]; add.u32 %r2, %r2, %r3;
    st.global.u32 [%q1], %r2;
    ret;
})";
static const std::string FUNCTION = HEAD + R"(
.visible .global .align 4 .u32 added = 1000;
.visible .func (.param .b32 result) changed(.param .b32 value)
{
    .reg .b32 %r<2>;
    ld.param.b32 %r1, [value]; mul.lo.u32 %r1, %r1, 3; st.param.b32 [result], %r1;
    ret;
})";

static int launch(CUfunction change, CUdeviceptr out, int x, int y)
{
    void *arguments[] = {&out};
    int status = cuLaunchKernel(change, 1, 1, 1, x, y, 1, 0, nullptr, arguments, nullptr);
    return status ? status : cuCtxSynchronize();
}

static void encode(CUdeviceptr out)
{
    CUtensorMap map;
    cuuint64_t sizes[4] = {64, 8, 8, 2}, strides[3] = {128, 1024, 8192};
    cuuint32_t steps[4] = {1, 1, 1, 1}, box[4] = {8, 8, 1, 2};
    auto wide = [&](CUtensorMapSwizzle swizzle, int pixels, CUtensorMapIm2ColWideMode mode) {
        return cuTensorMapEncodeIm2colWide(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *)out, sizes, strides, -1, 0, 64, pixels, steps,
                                           CU_TENSOR_MAP_INTERLEAVE_NONE, mode, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    int first = wide(CU_TENSOR_MAP_SWIZZLE_128B, 100, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W);
    short corner;
    memcpy(&corner, (char *)&map + 68, 2);
    printf("wide %d, corner %d, without swizzle %d, 2,000 pixels %d and %d\n", first, corner,
           wide(CU_TENSOR_MAP_SWIZZLE_NONE, 100, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W),
           wide(CU_TENSOR_MAP_SWIZZLE_128B, 2000, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W),
           wide(CU_TENSOR_MAP_SWIZZLE_128B, 2000, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128));
    auto sliced = [&](CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle) {
        return cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *)out, sizes, strides, box, steps, interleave, swizzle,
                                      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    printf("slices of 16 bytes %d, of 32 %d, with another swizzle %d\n",
           sliced(CU_TENSOR_MAP_INTERLEAVE_16B, CU_TENSOR_MAP_SWIZZLE_NONE), sliced(CU_TENSOR_MAP_INTERLEAVE_32B, CU_TENSOR_MAP_SWIZZLE_32B),
           sliced(CU_TENSOR_MAP_INTERLEAVE_32B, CU_TENSOR_MAP_SWIZZLE_NONE));
    out = 0;
    printf("without an address %d\n", sliced(CU_TENSOR_MAP_INTERLEAVE_16B, CU_TENSOR_MAP_SWIZZLE_NONE));
}

int main()
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr out;
    CUlinkState state;
    CUmodule module;
    CUfunction change;
    void *image;
    size_t bytes;
    cuInit(0);
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    cuMemAlloc(&out, 65536);
    encode(out);
    cuLinkCreate(0, nullptr, nullptr, &state);
    int added = cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)KERNEL.c_str(), KERNEL.size() + 1, "kernel", 0, nullptr, nullptr);
    int again = cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)FUNCTION.c_str(), FUNCTION.size() + 1, "function", 0, nullptr, nullptr);
    int linked = cuLinkComplete(state, &image, &bytes);
    printf("added %d %d, linked %d\n", added, again, linked);
    if (linked)
        return 0;
    int loaded = cuModuleLoadData(&module, image);
    int found = cuModuleGetFunction(&change, module, "change");
    cuLinkDestroy(state);
    int other[] = {launch(change, out, 64, 1), launch(change, out, 32, 1), launch(change, out, 32, 2)};
    unsigned results[64];
    cuMemcpyDtoH(results, out, sizeof results);
    bool good = true;
    for (unsigned i = 0; i < 64; i++)
        good &= results[i] == 3 * i + 1000;
    printf("loaded %d, found %d, blocks 64 %d, 32 %d, 32x2 %d, %s\n", loaded, found, other[0], other[1], other[2], good ? "good" : "BAD");
    CUlinkState missing;
    cuLinkCreate(0, nullptr, nullptr, &missing);
    cuLinkAddData(missing, CU_JIT_INPUT_PTX, (void *)KERNEL.c_str(), KERNEL.size() + 1, "kernel", 0, nullptr, nullptr);
    cuLinkAddData(missing, CU_JIT_INPUT_PTX, (void *)HEAD.c_str(), HEAD.size() + 1, "empty", 0, nullptr, nullptr);
    printf("without the function %d\n", cuLinkComplete(missing, &image, &bytes));
    cuLinkDestroy(missing);
    return 0;
}
