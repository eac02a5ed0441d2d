// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/vector_fma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "halide_gen/common/worker.h"
#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;

// The assembly of exp in steps of `lanes`.
std::string Exp(const std::string& type, int lanes, IsaLevel isa) {
  const CodegenAnswer answer =
      Serve({.kernel = "kernel v1 math 1\ndims a\nin   0 " + type + " [a] dense\nout  0 " + type +
                       " [a] dense = exp(in0[a])\n",
             .schedule = "pointwise task=8192 step=" + std::to_string(lanes),
             .target = std::string(Name(isa)),
             .sections = {"asm"}});
  return answer.sections.empty() ? answer.error : answer.sections[0].second;
}

TEST(VectorFma, AVectorIsOneInstruction) {
  for (const std::string type : {"f32", "f64"}) {
    const std::string suffix = type == "f32" ? "s" : "d";
    for (const int lanes : {8, 16, 64}) {
      for (const IsaLevel isa : {IsaLevel::kV3, IsaLevel::kV4}) {
        SCOPED_TRACE(testing::Message() << type << " " << lanes << " " << Name(isa));
        const std::string assembly = Exp(type, lanes, isa);
        EXPECT_THAT(assembly, HasSubstr("vfmadd213p" + suffix));
        EXPECT_THAT(assembly, Not(HasSubstr("vfmadd213s" + suffix)));
        EXPECT_THAT(assembly, Not(HasSubstr("vfmadd231s" + suffix)));
      }
    }
  }
}

TEST(VectorFma, LeavesNothingElse) {
  const std::string assembly = Exp("f32", 64, IsaLevel::kV3);
  EXPECT_THAT(assembly, HasSubstr("k_argv"));
  EXPECT_THAT(assembly, Not(HasSubstr("kiln_")));
  EXPECT_THAT(assembly, Not(HasSubstr("init_array")));
}

}  // namespace
}  // namespace kiln
