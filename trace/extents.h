// SPDX-License-Identifier: Apache-2.0
// Extents of a call's values as symbols, which attributes are made of: `v3_0` is axis 0 of value 3
// of its log.
//
// An ArrayDim has a number and an expression. Wherever one becomes an attribute, what the
// expression gives for the extents of this log is compared with the number, and only the number
// counts where they differ: it was kept from another call, or made by a division that C++ rounds
// otherwise. So an expression in a log always says what its numbers are.
#ifndef KILN_TRACE_EXTENTS_H_
#define KILN_TRACE_EXTENTS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/array.h"
#include "trace/log.h"

namespace kiln::tracing {

// Of value `id`.
ArrayShape ShapeOf(uint32_t id, const ValueType& type);

// An axis of a value of a log.
struct LogAxis {
  uint32_t value = 0;
  size_t axis = 0;
};
// Nothing: the symbol is none of an extent.
std::optional<LogAxis> AxisOf(const std::string& symbol);

// The attributes of a call whose lists of extents are expressions, as texts ("[v3_0 - 1]").
class SymbolicAttributes {
 public:
  SymbolicAttributes(const OpDef& op, std::span<const Attribute> attributes, const Log& log);
  // Whether there is one.
  bool any() const { return !texts_.empty(); }
  std::span<const Attribute> list() const { return list_; }

 private:
  std::vector<Attribute> list_;
  std::list<std::string> texts_;
};

// What `signature` has as numbers, with the expressions of `symbolic` in their place: `dim` tells a
// symbol.
absl::StatusOr<Attrs> SubstituteExtents(const CallSignature& signature,
                                        const CallSignature& symbolic,
                                        const std::function<absl::StatusOr<Dim>(LogAxis)>& dim);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_EXTENTS_H_
