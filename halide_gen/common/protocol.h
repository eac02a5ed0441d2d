// SPDX-License-Identifier: Apache-2.0
// What goes between the compiler and the worker process `kiln-codegen`. No Halide here.
//
// Frames (base/frames.h) on stdin and stdout; a payload is fields of u8 tag, u32 length, bytes. The
// worker first sends a hello frame {build id, Halide version}. It then answers one request frame
// with one answer frame, in order, until stdin ends. Each request is served in a forked child, so
// that an LLVM abort costs one kernel, not the worker.
#ifndef KILN_HALIDE_GEN_COMMON_PROTOCOL_H_
#define KILN_HALIDE_GEN_COMMON_PROTOCOL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

struct CodegenHello {
  std::string build_id;  // of the worker executable: equal for equal code
  std::string compiler;  // "halide 21.0.0 <digest of libHalide>": part of the cache key together
                         // with build_id
};

struct CodegenRequest {
  std::string kernel;    // canonical Kernel text
  std::string schedule;  // Schedule::ToString()
  std::string target;    // "x86-64-v3", "cuda-sm90"
  std::vector<std::string>
      sections;  // wanted, of Backend::sections: "elf", "stmt"; "ptx", "launch"
  uint32_t timeout_ms = 30000;
  uint32_t cpu_ms = 0;                            // of processor time; 0: no limit of its own
  std::string assembler = {}, disassembler = {};  // paths; of sections that need them
  // Passes that are left out, to measure what they earn. The worker's command line says it, no
  // frame does: a key knows nothing of it.
  std::vector<std::string> without = {};
};

struct CodegenAnswer {
  enum class Outcome : uint8_t {
    kOk,
    kDeterministic,  // the same request fails again: worth a negative entry
    kTransient,      // out of memory or disk, or ended by somebody: worth another try
    kTimedOut,       // worth another try with more time only
  };
  Outcome outcome = Outcome::kOk;
  std::string error;
  bool of_schedule = false;  // it failed in Halide or LLVM: another schedule of the kernel may pass
  std::string schedule;      // of the code: the one asked for, or a plainer one
  std::vector<std::pair<std::string, std::string>> sections;  // name -> bytes
  std::string isa;  // names of features that the code really uses, sorted: "avx avx2 fma"
  uint64_t scratch_bytes = 0;
  uint32_t wall_ms = 0;
};

std::string Encode(const CodegenHello& hello);
std::string Encode(const CodegenRequest& request);
std::string Encode(const CodegenAnswer& answer);
absl::StatusOr<CodegenHello> DecodeHello(absl::string_view payload);
absl::StatusOr<CodegenRequest> DecodeRequest(absl::string_view payload);
absl::StatusOr<CodegenAnswer> DecodeAnswer(absl::string_view payload);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_PROTOCOL_H_
