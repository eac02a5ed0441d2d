// SPDX-License-Identifier: Apache-2.0
// Backend: how code is made for a device. Private: has Halide.h.
//
// The worker reads a request and finds the backend of its target in one table (backends.cc), with a
// line for each device; the files of a backend are in a folder of its own. What it gives back are
// sections of a cache entry: the code that is loaded ("elf", "ptx"), and texts for people.
#ifndef KILN_HALIDE_GEN_COMMON_BACKEND_H_
#define KILN_HALIDE_GEN_COMMON_BACKEND_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/target.h"
#include "halide_gen/common/protocol.h"
#include "kernel/kernel.h"
#include "schedule/schedule.h"

namespace kiln {

struct CompileJob {
  const Kernel& kernel;
  const Schedule& schedule;
  Target target;
  const CodegenRequest& request;  // of its sections each is one of Backend::sections
  const std::string& dir;         // for files in between; removed afterwards
};

struct Backend {
  DeviceKind device;
  std::span<const char* const> sections;  // that it can make
  std::span<const char* const> files;     // of them, what `kiln-codegen --compile` writes
  // Fills sections and isa of `answer`. Errors are Statuses, or Halide::Error where Halide refuses
  // the schedule.
  absl::Status (*compile)(const CompileJob& job, CodegenAnswer& answer);
  // Runs through code generation once, so that children that are forked later find it warm.
  void (*warm_up)();
};

// The table.
std::span<const Backend* const> AllBackends();

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_COMMON_BACKEND_H_
