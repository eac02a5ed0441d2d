// SPDX-License-Identifier: Apache-2.0
// Numbers beside arrays: which type they take, and their bits in it.
#ifndef KILN_TRACE_NUMBER_H_
#define KILN_TRACE_NUMBER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/tensor.h"
#include "kiln/trace.h"

namespace kiln::tracing {

class OperandAccess {
 public:
  static bool IsArray(const Operand& o) { return o.kind_ == Operand::Kind::kArray; }
  static bool IsAbsent(const Operand& o) { return o.kind_ == Operand::Kind::kNone; }
  static const Array& ArrayOf(const Operand& o) { return *o.array_; }
  // The type of a number that no array stands beside: f32, i64, u64 or bool.
  static DType OwnType(const Operand& o);
  // Nothing: a fraction, or a number out of range, as an integer; not 0 or 1 as a bool.
  static std::optional<uint64_t> Bits(const Operand& o, DType type);
  // kInvalidArgument: the same.
  static absl::StatusOr<uint64_t> BitsBeside(const Operand& o, DType type);
  static std::string ToString(const Operand& o);
  // A whole number from 1 to 4: what `pow` writes as products.
  static bool IsSmall(const Operand& o);
  // Of a number: the nearest double.
  static double AsDouble(const Operand& o);
  // The double that an operator's attribute is, for a number beside an array of `type`.
  // kInvalidArgument: as BitsBeside; kUnimplemented: an integer that no double is.
  static absl::StatusOr<double> AttributeBeside(const Operand& o, DType type);
};

// As few digits as tell the number from all others.
std::string ToString(double value);
// Of a number of this type with these bits.
std::string NumberText(uint64_t bits, DType type);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_NUMBER_H_
