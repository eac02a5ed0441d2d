// SPDX-License-Identifier: Apache-2.0
// A Program taken from a message into types, with everything checked that does not depend on
// extents.
//
// Programs come from caches and packages: every index, type, count and expression of the message is
// checked here, once per variant, so that what follows needs no check but those on extents. A
// thunk's operands are references into buffers:
//
//   inputs [n, 64] of buffer 0   kernel "relu"   outputs [n, 64] of buffer 3
//
// A program output whose buffer is not of kind OUTPUT (an input handed through, a constant, a
// buffer with two names) gets an OUTPUT buffer of its own and a view at the end; the placement
// makes it a copy where it must be one.
//
// Ports lie in the host's memory, and constants do, of which a buffer on a device is a copy there.
// All operands of a thunk are on one device, the host for all but kernels and views; a copy of
// dense bytes may have its ends on two.
#ifndef KILN_EXEC_CHECKED_PROGRAM_H_
#define KILN_EXEC_CHECKED_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/target.h"
#include "exec/library/library.h"
#include "exec/provider.h"
#include "kernel/kernel.h"
#include "kiln/dim.h"

namespace kiln {

struct CheckedRef {
  int32_t buffer = -1;  // -1: an absent optional input of a library operator
  Dim offset;           // bytes
  DType type = DType::kF32;
  Shape shape;
  Shape strides;  // elements; empty: dense
};

struct CheckedThunk {
  enum class Kind : uint8_t { kKernel, kLibrary, kView, kCopy, kHostDims };
  Kind kind = Kind::kKernel;
  std::string name;
  DeviceKind device = DefaultDevice();  // where it runs; of a copy, the one that is not the host
  std::vector<CheckedRef> inputs, outputs;
  int32_t kernel = -1;                    // kKernel
  std::vector<Dim> dims;                  // kKernel: extents; kHostDims: the values
  std::vector<uint64_t> params;           // kKernel: the bytes of each value, from the low end
  const library::Operator* op = nullptr;  // kLibrary
  library::Attributes attributes;         // kLibrary
  std::vector<library::PostOp> post_ops;  // kLibrary
};

struct CheckedBuffer {
  program::Buffer::Kind kind = program::Buffer::TEMPORARY;
  int32_t index = -1;  // which input, output or constant
  Dim bytes;           // of the port or constant where the kind has one
  std::string name;
  DeviceKind device = DefaultDevice();
};

struct CheckedPort {
  std::string name;
  DType type = DType::kF32;
  Shape shape;
  int32_t buffer = -1;  // -1: an input that nothing reads
  bool optional = false;
  Shape elements = {};  // of an input whose elements give symbols their values
};

struct CheckedSubRange {
  int32_t buffer = 0, of = 0;
  Dim offset;
};

struct CheckedProgram {
  std::shared_ptr<const Variant> variant;
  std::vector<Kernel> kernels;  // one per KernelDef
  std::vector<CheckedBuffer> buffers;
  std::vector<CheckedThunk> thunks;
  std::vector<CheckedSubRange> sub_ranges;
  std::vector<CheckedPort> inputs, outputs;
  DeviceKind other = DefaultDevice();  // the device that some buffers are on, beside the host
};

// kInvalidArgument on malformed content, kUnimplemented on devices and operators that this build
// does not have.
absl::StatusOr<std::shared_ptr<const CheckedProgram>> CheckProgram(
    std::shared_ptr<const Variant> variant);

}  // namespace kiln

#endif  // KILN_EXEC_CHECKED_PROGRAM_H_
