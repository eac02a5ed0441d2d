// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/link.h"

#include "base/status_macros.h"
#include "halide_gen/common/files.h"
#include "halide_gen/common/run_tool.h"

namespace kiln {
namespace {

constexpr absl::string_view kBinutils = "binutils";
constexpr absl::string_view kExports = "{ global: k_argv; kiln_imports; kiln_abi; local: *; };\n";

}  // namespace

absl::StatusOr<std::string> LinkKernel(const std::string& dir) {
  const std::string stub = dir + "/stub.o", exports = dir + "/exports", out = dir + "/k.so",
                    object = dir + "/k.o", log = dir + "/log";
  KILN_RETURN_IF_ERROR(WriteBytes(stub, ImportStub()));
  KILN_RETURN_IF_ERROR(WriteBytes(exports, kExports));
  KILN_RETURN_IF_ERROR(RunTool({"as", "-o", object, dir + "/k.s"}, log, kBinutils));
  KILN_RETURN_IF_ERROR(
      RunTool({"ld", "-shared", "-z", "noexecstack", "-z", "now", "-z", "noseparate-code",
               "--hash-style=gnu", "-Bsymbolic", "--no-undefined", "--build-id=none",
               "--version-script=" + exports, "-o", out, object, stub},
              log, kBinutils));
  return ReadBytes(out);
}

}  // namespace kiln
