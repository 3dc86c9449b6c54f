// Prints, for every test that GPUOcelot's TestPTXAssembly.cpp registers, its PTX, inputs and what its reference functions expect.
//
// It is compiled with that file (SUITE_FILE) and stands in for the rest of GPUOcelot, of which nothing is run: the parts of
// headers that the file names but that only a launch would use are declared here.
// One line of hexadecimal fields per test: see suite_gpuocelot.py, which reads it.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <typeinfo>
#include <vector>

#define TEXTURE_OPERATIONS_H_INCLUDED

#include <ocelot/ir/interface/Instruction.h>

namespace ir { class Texture; }
namespace executive {
struct DeviceProperties { ir::Instruction::Architecture ISA = ir::Instruction::Emulated; };
namespace tex { template <int channel, typename result, typename... arguments> result sample(const arguments&...); }
}
namespace ocelot {
template <typename... arguments> void registerPTXModule(const arguments&...) {}
template <typename... arguments> void unregisterModule(const arguments&...) {}
template <typename... arguments> void launch(const arguments&...) {}
template <typename... arguments> void getDeviceProperties(arguments&...) {}
}
struct cudaDeviceProp { char name[1]; };
struct dim3 { dim3(unsigned, unsigned, unsigned) {} };
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
template <typename... arguments> void ignore(const arguments&...) {}
#define cudaGetDeviceCount ignore
#define cudaSetDevice ignore
#define cudaGetDeviceProperties ignore
#define cudaMalloc ignore
#define cudaMemset ignore
#define cudaMemcpy ignore
#define cudaSetupArgument ignore
#define cudaConfigureCall ignore
#define cudaThreadSynchronize ignore
#define cudaFree ignore

#undef issubnormal  // later C libraries have a macro of this name
using std::fpclassify;
using std::isnan;
using std::signbit;
using std::isinf;
#define main main_of_the_suite
#include SUITE_FILE
#undef main

static void hex(const char* bytes, size_t count) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < count; ++i) std::cout << digits[(bytes[i] >> 4) & 15] << digits[bytes[i] & 15];
}

static size_t size_of(const test::TestPTXAssembly::TypeVector& types) {
  size_t size = 0;
  for (auto type : types) {
    size_t bytes = test::TestPTXAssembly::bytes(type);
    size = (size + bytes - 1) / bytes * bytes + bytes;
  }
  return size;
}

int main(int count, char** arguments) {
  unsigned seeds = count > 1 ? std::stoul(arguments[1]) : 1;
  test::TestPTXAssembly suite;
  suite.print = suite.enumerate = false;
  suite._loadTests(ir::Instruction::Emulated);
  for (const auto& test : suite._tests) {
    std::cout << test.name << ' ' << test.threads << ' ' << test.ctas << ' ' << test.epsilon << ' ';
    for (auto type : test.outputTypes) std::cout << int(type);
    std::cout << ' ';
    hex(test.ptx.data(), test.ptx.size());
    for (unsigned seed = 1; seed <= seeds; ++seed) {
      suite.random.seed(seed);
      char* input = test.generator(suite.random);
      std::string output(size_of(test.outputTypes), '\0');
      std::cout << ' ';
      hex(input, size_of(test.inputTypes));
      test.reference(&output[0], input);
      std::cout << ' ';
      hex(output.data(), output.size());
    }
    std::cout << '\n';
  }
}
