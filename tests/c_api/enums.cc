// SPDX-License-Identifier: Apache-2.0
// Public enums that a program passes by value reach a library of another compiler: enums_test.sh
// compiles this with g++ -O2.
#include <cstdio>

#include "kiln/tensor.h"
#include "kiln/trace.h"

namespace {

// `dirty` has more than the enum's value in its register. g++ hands an enum of 8 bits on as it
// stands there, and a callee that clang has compiled reads 32 of them.
template <typename E>
__attribute__((noinline)) absl::string_view NameOf(unsigned dirty) {
  return kiln::Name(static_cast<E>(static_cast<unsigned char>(dirty)));
}

// Whether the names of all `count` values are told with `dirt` above them as without.
template <typename E>
bool AllArrive(const char* type, unsigned count, unsigned dirt) {
  for (unsigned k = 0; k < count; ++k) {
    if (NameOf<E>(dirt | k) == NameOf<E>(k)) continue;
    std::printf("enums: %u of %s arrives as another value\n", k, type);
    return false;
  }
  return true;
}

}  // namespace

int main(int count, char**) {
  const unsigned dirt = static_cast<unsigned>(count) << 8;  // no compiler knows it
  const bool types = AllArrive<kiln::DType>("DType", kiln::kNumDTypes, dirt);
  return AllArrive<kiln::TraceError>("TraceError", kiln::kNumTraceErrors, dirt) && types ? 0 : 1;
}
