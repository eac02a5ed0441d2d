// SPDX-License-Identifier: Apache-2.0
#include "exec/fits.h"

#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/tensor_bytes.h"
#include "exec/symbols.h"
#include "kiln/dim.h"

namespace kiln {
namespace {

// The symbol that `dim` is, or "".
std::string AloneSymbol(const Dim& dim) {
  std::set<std::string> symbols;
  dim.CollectSymbols(symbols);
  const bool alone = symbols.size() == 1 && dim == Dim::Symbol(*symbols.begin());
  return alone ? *symbols.begin() : "";
}

// Whether the elements are those that `port` says; symbols are from 0 on.
bool ElementsFit(const program::Port& port, const Tensor& tensor, SymbolValues& values) {
  if (port.elements_size() == 0 || tensor.data() == nullptr) return true;  // shapes alone
  if (tensor.num_elements() != port.elements_size()) return false;
  const std::vector<int64_t> elements = IntElements(tensor);
  for (size_t i = 0; i < elements.size(); ++i) {
    const absl::StatusOr<Dim> dim = Dim::Parse(port.elements(static_cast<int>(i)));
    if (!dim.ok()) return false;
    if (const std::string symbol = AloneSymbol(*dim); !symbol.empty()) {
      const auto [at, fresh] = values.emplace(symbol, elements[i]);
      if (elements[i] < 0 || at->second != elements[i]) return false;
    } else if (dim->constant() && *dim->constant() != elements[i]) {
      return false;
    }
  }
  return true;
}

bool SameBytes(const Guard& guard, const std::vector<InputInfo>& inputs) {
  for (const InputInfo& input : inputs) {
    if (input.name != guard.input) continue;
    if (input.tensor.data() == nullptr) return guard.bytes.empty();
    const Tensor dense = input.tensor.is_dense() ? input.tensor : input.tensor.Clone();
    return input.present && BytesOf(dense) == guard.bytes;
  }
  return false;
}

bool Presence(const Guard& guard, const std::vector<InputInfo>& inputs) {
  for (const InputInfo& input : inputs) {
    if (input.name == guard.input) return input.present == (guard.kind == Guard::Kind::kPresent);
  }
  return false;
}

absl::StatusOr<bool> Holds(const Guard& guard, const std::vector<InputInfo>& inputs,
                           const SymbolValues& values) {
  switch (guard.kind) {
    case Guard::Kind::kValue:
      return SameBytes(guard, inputs);
    case Guard::Kind::kPresent:
    case Guard::Kind::kAbsent:
      return Presence(guard, inputs);
    default:
      return guard.Holds(values);
  }
}

// Whether a guard holds, as far as these symbols say: of a script, a run finds out some more.
bool MayHold(const Guard& guard, const SymbolValues& values) {
  std::map<std::string, Dim> known;
  for (const auto& [symbol, value] : values) known.emplace(symbol, value);
  Guard rest = guard;
  rest.left = guard.left.Substitute(known);
  rest.right = guard.right.Substitute(known);
  if (guard.kind == Guard::Kind::kSame) rest = Guard::Same(rest.left, rest.right);
  return rest.Static() != false;
}

}  // namespace

absl::Status CheckPort(const PortInfo& port, const InputInfo& input) {
  if (!input.present) {
    if (port.optional) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("input \"", port.name, "\": absent; bind a tensor"));
  }
  if (input.tensor.dtype() != port.type) {
    return absl::InvalidArgumentError(absl::StrCat("input \"", port.name, "\": is ",
                                                   Name(input.tensor.dtype()), ", expected ",
                                                   Name(port.type)));
  }
  if (input.tensor.shape().size() != port.shape.size()) {
    return absl::InvalidArgumentError(absl::StrCat("input \"", port.name, "\": has rank ",
                                                   input.tensor.shape().size(), ", expected ",
                                                   port.shape.size(), " ", ToString(port.shape)));
  }
  for (size_t axis = 0; axis < port.shape.size(); ++axis) {
    const std::optional<int64_t> wanted = port.shape[axis].constant();
    const int64_t got = input.tensor.shape()[axis];
    if (wanted.has_value() && *wanted != got) {
      return absl::InvalidArgumentError(absl::StrCat("input \"", port.name, "\": dim ", axis,
                                                     " is ", got, ", expected ", *wanted));
    }
  }
  return absl::OkStatus();
}

bool Fits(const Variant& variant, const std::vector<InputInfo>& inputs, const Guard** broken) {
  *broken = nullptr;
  SymbolValues values;
  for (int k = 0; k < variant.program.inputs_size(); ++k) {
    const program::Port& port = variant.program.inputs(k);
    const InputInfo& input = inputs[static_cast<size_t>(k)];
    if (!input.present) {
      if (port.optional()) continue;
      return false;
    }
    for (int axis = 0; axis < port.shape_size(); ++axis) {
      const int64_t got = input.tensor.shape()[static_cast<size_t>(axis)];
      const absl::StatusOr<Dim> dim = Dim::Parse(port.shape(axis));
      if (!dim.ok()) return false;
      if (dim->constant().has_value()) {
        if (*dim->constant() != got) return false;
        continue;
      }
      const auto [at, fresh] = values.emplace(port.shape(axis), got);
      if (!fresh && at->second != got) return false;
    }
    if (!ElementsFit(port, input.tensor, values)) return false;
  }
  for (const Guard& guard : variant.guards) {
    const absl::StatusOr<bool> holds = Holds(guard, inputs, values);
    if (holds.ok() && *holds) continue;
    if (variant.script != nullptr && absl::IsNotFound(holds.status()) && MayHold(guard, values))
      continue;
    *broken = &guard;
    return false;
  }
  return true;
}

}  // namespace kiln
