// SPDX-License-Identifier: Apache-2.0
// Target: what code is made for, a device and a level of it.
//
// Its text form ("x86-64-v3") is what --target takes, what keys, packages and machine descriptions
// hold, and what messages say. Levels of a device are ordered: code for one runs on all above it.
//
//   kiln::Target::Parse("x86-64-v3")->RunsOn(kiln::HostTarget());  // whether there is AVX2
#ifndef KILN_TARGET_H_
#define KILN_TARGET_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "kiln/status.h"

namespace kiln {

// One line for each device; the first is the default.
enum class DeviceKind : int {
  kCpu,
  kCuda,
};

struct KILN_API Target {
  DeviceKind device = DeviceKind::kCpu;
  uint8_t level = 0;  // of the device; 0 has no code, its kernels run on the VM

  // Nothing for a text that names no target.
  static std::optional<Target> Parse(absl::string_view name);
  absl::string_view name() const;

  // Whether kernels are compiled for this target at all.
  bool compiles() const { return level > 0; }
  // Whether code for this target runs where `host` is.
  bool RunsOn(Target host) const { return device == host.device && level <= host.level; }

  friend bool operator==(Target, Target) = default;
};

// What kernels are compiled for where nothing else is asked: the level of the first device of this
// computer. Found once; thread-safe.
KILN_API Target HostTarget();

}  // namespace kiln

#endif  // KILN_TARGET_H_
