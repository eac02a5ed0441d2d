// SPDX-License-Identifier: Apache-2.0
// The validation of compiled code: it runs on the kernel's probes (probe.h), and every bit of every
// output is compared with the VM's.
//
//   absl::StatusOr<Validation> done = ValidateKernel({code, text, launch, at_most});
//   // done->transcript: "4:9d61b1...": version and SHA-256 of what was asked and answered
//
// Wrong code may do anything to the process that runs it: only kiln-validate calls this, in a child
// of its own for each kernel (validator.h). The transcript depends on text, schedule and class
// only, not on the code or the machine, so whoever has the kernel can check it. It tells of the
// example only where no other extents are found to fit; the entry then has them.
#ifndef KILN_EXEC_VALIDATE_VALIDATION_H_
#define KILN_EXEC_VALIDATE_VALIDATION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/target.h"
#include "exec/support/compute_device.h"
#include "kernel/abi.h"
#include "kernel/kernel.h"
#include "kernel/launch_info.h"
#include "persistent_cache/entry.h"

namespace kiln {

// Counts changes of the probes: a validation of another version says nothing here.
inline constexpr int kValidationVersion = 5;  // correctness

struct ValidationRequest {
  std::string code;
  std::string kernel;            // text
  std::string launch;            // LaunchInfo::ToString()
  std::vector<int64_t> at_most;  // size class: one bound per dim, -1 for none
  std::vector<int64_t> example;  // extents of a launch that is wanted, one per dim; may be empty
  bool nobody_waits = false;     // others come first
  DeviceKind device = DefaultDevice();
  std::string machine_code = {}, recipe = {};  // as in CodeImage
  std::string on = {};                         // the name of the ComputeDevice; empty: the CPU
};

struct Validation {
  std::string transcript;
  bool of_example = false;  // no extents but the example's were found to fit
  int probes = 0;
};

// As bytes for the child process, and back.
std::string Encode(const ValidationRequest& request);
absl::StatusOr<ValidationRequest> DecodeValidationRequest(absl::string_view bytes);
std::string Encode(const absl::StatusOr<Validation>& validation);
absl::StatusOr<Validation> DecodeValidation(absl::string_view bytes);

// "64,-1", as it stands in an entry; the inverse gives nothing for other texts.
std::string FormatClass(absl::Span<const int64_t> at_most);
std::vector<int64_t> ParseClass(absl::string_view text);
// A class without a bound for a dim (-1, or too short) holds all its extents. The union holds what
// either does.
bool IsWithinClass(absl::Span<const int64_t> inner, absl::Span<const int64_t> outer);
std::vector<int64_t> UnionOfClasses(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

// What an entry with code asks of its validation. `example`: extents of a launch, where it has none
// itself.
// `on`: for code of a device.
ValidationRequest ValidationOf(const Entry& entry, const std::vector<int64_t>& example,
                               const ComputeDevice* on = nullptr);

// kDataLoss: the code does not load or gives other bits, writes outside its outputs or returns an
// error, with the probe and the first difference. kUnimplemented: there is nothing to compare (the
// VM cannot run it, or no extents fit and the example does not). Code that reads or writes beyond
// an operand, or uses an instruction that this machine lacks, ends the process.
//
// `call` runs the code; nothing: directly. For tests, which look at what is executed.
using CodeCall = std::function<int(KernelFn code, void** argv)>;
absl::StatusOr<Validation> ValidateKernel(const ValidationRequest& request,
                                          const CodeCall& call = nullptr);

// True if a validation of the kernel is one of its example.
bool NeedsExample(const Kernel& kernel, const LaunchInfo& launch,
                  const std::vector<int64_t>& at_most);

}  // namespace kiln

#endif  // KILN_EXEC_VALIDATE_VALIDATION_H_
