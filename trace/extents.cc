// SPDX-License-Identifier: Apache-2.0
#include "trace/extents.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "graph/rebuild.h"

namespace kiln {
namespace {

template <typename OfNumbers, typename OfDims>
ArrayDim Combine(const ArrayDim& a, const ArrayDim& b, OfNumbers number, OfDims dim) {
  const int64_t n = number(a.number(), b.number());
  return a.known() || b.known() ? ArrayDim(n, dim(a.dim(), b.dim())) : ArrayDim(n);
}

template <typename Operation>
int64_t Wrapped(int64_t a, int64_t b) {
  return static_cast<int64_t>(Operation()(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}

}  // namespace

// Overflow wraps: it is no undefined behaviour here, and no extent either.
ArrayDim operator+(const ArrayDim& a, const ArrayDim& b) {
  return Combine(a, b, Wrapped<std::plus<uint64_t>>, std::plus<Dim>());
}
ArrayDim operator-(const ArrayDim& a, const ArrayDim& b) {
  return Combine(a, b, Wrapped<std::minus<uint64_t>>, std::minus<Dim>());
}
ArrayDim operator*(const ArrayDim& a, const ArrayDim& b) {
  return Combine(a, b, Wrapped<std::multiplies<uint64_t>>, std::multiplies<Dim>());
}
ArrayDim operator/(const ArrayDim& a, const ArrayDim& b) {
  if (b.number() == 0 || (b.number() == -1 && a.number() == INT64_MIN)) return INT64_MIN;
  return Combine(a, b, std::divides<int64_t>(),
                 [](const Dim& x, const Dim& y) { return x.FloorDiv(y); });
}

namespace tracing {
namespace {

bool TakesDims(const OpDef& op, absl::string_view attribute) {
  return std::any_of(op.attrs.begin(), op.attrs.end(), [&](const AttrSpec& spec) {
    return spec.kind == AttrKind::kDims && attribute == spec.name;
  });
}

// Whether `dim` is an expression that gives `number` for the extents of the log.
bool Says(const Dim& dim, int64_t number, const Log& log) {
  std::set<std::string> symbols;
  dim.CollectSymbols(symbols);
  SymbolValues values;
  for (const std::string& symbol : symbols) {
    const std::optional<LogAxis> at = AxisOf(symbol);
    if (!at || at->value >= log.values.size()) return false;
    const ValueType& type = log.values[at->value].type;
    if (at->axis >= type.rank) return false;
    values[symbol] = type.extents[at->axis];
  }
  const absl::StatusOr<int64_t> found = dim.Evaluate(values);
  return found.ok() && *found == number;
}

}  // namespace

ArrayShape ShapeOf(uint32_t id, const ValueType& type) {
  ArrayShape shape;
  for (size_t i = 0; i < type.rank; ++i)
    shape.emplace_back(type.extents[i], Dim::Symbol(absl::StrCat("v", id, "_", i)));
  return shape;
}

std::optional<LogAxis> AxisOf(const std::string& symbol) {
  const std::vector<absl::string_view> parts = absl::StrSplit(symbol, '_');
  LogAxis at;
  if (parts.size() != 2 || !absl::StartsWith(parts[0], "v") ||
      !absl::SimpleAtoi(parts[0].substr(1), &at.value) || !absl::SimpleAtoi(parts[1], &at.axis))
    return std::nullopt;
  return at;
}

SymbolicAttributes::SymbolicAttributes(const OpDef& op, std::span<const Attribute> attributes,
                                       const Log& log)
    : list_(attributes.begin(), attributes.end()) {
  for (Attribute& attribute : list_) {
    if (attribute.dims == nullptr || !TakesDims(op, attribute.name)) continue;
    Shape shape;
    for (size_t i = 0; i < attribute.size; ++i) {
      const Dim& dim = attribute.dims[i];
      shape.push_back(Says(dim, attribute.ints[i], log) ? dim : Dim(attribute.ints[i]));
    }
    if (!Constant(shape))
      attribute =
          Attribute(attribute.name, absl::string_view(texts_.emplace_back(kiln::ToString(shape))));
  }
}

absl::StatusOr<Attrs> SubstituteExtents(const CallSignature& signature,
                                        const CallSignature& symbolic,
                                        const std::function<absl::StatusOr<Dim>(LogAxis)>& dim) {
  Attrs attrs = signature.attrs;
  for (const auto& [name, value] : symbolic.attrs) {
    const auto* const text = std::get_if<std::string>(&value);
    if (text == nullptr || !std::holds_alternative<std::vector<int64_t>>(attrs[name])) continue;
    KILN_ASSIGN_OR_RETURN(Shape shape, ParseShape(*text));
    std::set<std::string> symbols;
    for (const Dim& each : shape) each.CollectSymbols(symbols);
    std::map<std::string, Dim> dims;
    for (const std::string& symbol : symbols) {
      KILN_ASSIGN_OR_RETURN(dims[symbol], dim(AxisOf(symbol).value_or(LogAxis())));
    }
    // Where no symbol is left the number is known, which arithmetic on large ones may not give.
    const auto& numbers = std::get<std::vector<int64_t>>(attrs[name]);
    Shape substituted = Substituted(shape, dims);
    for (size_t i = 0; i < shape.size() && i < numbers.size(); ++i) {
      std::set<std::string> own;
      shape[i].CollectSymbols(own);
      if (std::all_of(own.begin(), own.end(), [&](const std::string& symbol) {
            return dims[symbol].constant().has_value();
          }))
        substituted[i] = Dim(numbers[i]);
    }
    attrs[name] = DimsValue(substituted);
  }
  return attrs;
}

}  // namespace tracing
}  // namespace kiln
