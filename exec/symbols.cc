// SPDX-License-Identifier: Apache-2.0
#include "exec/symbols.h"

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

class Binder {
 public:
  Binder(const std::vector<CheckedPort>& ports, const std::vector<InputInfo>& inputs)
      : ports_(ports), inputs_(inputs) {}

  absl::StatusOr<SymbolValues> Bind() {
    if (ports_.size() != inputs_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("program: ", ports_.size(), " inputs, ", inputs_.size(), " tensors"));
    }
    for (size_t i = 0; i < ports_.size(); ++i) KILN_RETURN_IF_ERROR(CheckTensor(i));
    ForEachDim([&](size_t i, const Dim& dim, int64_t extent) { BindPlain(i, dim, extent); });
    for (size_t i = 0; i < ports_.size(); ++i) KILN_RETURN_IF_ERROR(BindElements(i));
    ForEachDim([&](size_t i, const Dim& dim, int64_t extent) { BindLinear(i, dim, extent); });
    for (size_t i = 0; i < ports_.size(); ++i) KILN_RETURN_IF_ERROR(CheckDims(i));
    return std::move(values_);
  }

 private:
  template <typename F>
  void ForEachDim(F&& f) {
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (!inputs_[i].present) continue;
      for (size_t axis = 0; axis < ports_[i].shape.size(); ++axis) {
        f(i, ports_[i].shape[axis], inputs_[i].tensor.shape()[axis]);
      }
    }
  }

  absl::Status CheckTensor(size_t i) const {
    const CheckedPort& port = ports_[i];
    if (!inputs_[i].present) {
      if (port.optional) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("input \"", port.name, "\": absent; bind a tensor"));
    }
    const Tensor& tensor = inputs_[i].tensor;
    if (tensor.dtype() != port.type) {
      return absl::InvalidArgumentError(absl::StrCat("input \"", port.name, "\": type is ",
                                                     Name(tensor.dtype()), ", expected ",
                                                     Name(port.type), "; convert the tensor"));
    }
    if (tensor.shape().size() != port.shape.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input \"", port.name, "\": shape is [", absl::StrJoin(tensor.shape(), ", "),
                       "], expected ", ToString(port.shape), "; give a tensor of this rank"));
    }
    return absl::OkStatus();
  }

  static std::optional<std::string> OnlySymbol(const Dim& dim, const SymbolValues& known) {
    std::set<std::string> symbols;
    dim.CollectSymbols(symbols);
    for (const auto& [name, value] : known) symbols.erase(name);
    if (symbols.size() != 1) return std::nullopt;
    return *symbols.begin();
  }

  void BindPlain(size_t i, const Dim& dim, int64_t extent) {
    const std::optional<std::string> symbol = OnlySymbol(dim, {});
    if (symbol && dim == Dim::Symbol(*symbol) && values_.emplace(*symbol, extent).second)
      origin_[*symbol] = i;
  }

  // Symbols stand for numbers from 0 on.
  absl::Status BindElements(size_t i) {
    const CheckedPort& port = ports_[i];
    if (port.elements.empty() || !inputs_[i].present) return absl::OkStatus();
    const int64_t count = inputs_[i].tensor.num_elements();
    if (count != static_cast<int64_t>(port.elements.size())) {
      return absl::InvalidArgumentError(absl::StrCat("input \"", port.name, "\": has ", count,
                                                     " elements, expected ", port.elements.size()));
    }
    const std::vector<int64_t> elements = IntElements(inputs_[i].tensor);
    for (size_t k = 0; k < elements.size(); ++k) {
      const std::optional<std::string> symbol = OnlySymbol(port.elements[k], {});
      if (!symbol || !(port.elements[k] == Dim::Symbol(*symbol))) continue;
      if (elements[k] < 0) {
        return absl::InvalidArgumentError(absl::StrCat("input \"", port.name, "\": element ", k,
                                                       " is ", elements[k],
                                                       "; give a number from 0 on"));
      }
      if (values_.emplace(*symbol, elements[k]).second) origin_[*symbol] = i;
    }
    return absl::OkStatus();
  }

  // f(0) and f(1) give the only candidate; whether it solves the dim is checked with all others at
  // the end.
  void BindLinear(size_t i, const Dim& dim, int64_t extent) {
    const std::optional<std::string> symbol = OnlySymbol(dim, values_);
    if (!symbol) return;
    const auto at = [&](int64_t value) {
      SymbolValues trial = values_;
      trial[*symbol] = value;
      return dim.Evaluate(trial);
    };
    const absl::StatusOr<int64_t> zero = at(0), one = at(1);
    if (!zero.ok() || !one.ok()) return;
    const std::optional<int64_t> slope = CheckedSub(*one, *zero), rest = CheckedSub(extent, *zero);
    if (!slope || !rest || *slope == 0 || *slope == -1 || *rest % *slope != 0 || *rest / *slope < 0)
      return;
    values_[*symbol] = *rest / *slope;
    origin_[*symbol] = i;
  }

  absl::Status CheckDims(size_t i) const {
    if (!inputs_[i].present) return absl::OkStatus();
    const CheckedPort& port = ports_[i];
    for (size_t axis = 0; axis < port.shape.size(); ++axis) {
      const int64_t extent = inputs_[i].tensor.shape()[axis];
      const Dim& dim = port.shape[axis];
      const absl::StatusOr<int64_t> expected = dim.Evaluate(values_);
      const std::string subject =
          absl::StrCat("input \"", port.name, "\": dim ", axis, " is ", extent);
      if (!expected.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            subject, ", expected ", dim.ToString(), "; no values of its symbols give that extent"));
      }
      if (*expected == extent) continue;
      if (dim.constant()) {
        return absl::InvalidArgumentError(absl::StrCat(
            subject, ", expected ", *expected, "; give a tensor of shape ", ToString(port.shape)));
      }
      return absl::InvalidArgumentError(absl::StrCat(subject, ", but ", dim.ToString(), " is ",
                                                     *expected, Origins(dim),
                                                     "; give inputs whose shapes agree"));
    }
    return absl::OkStatus();
  }

  std::string Origins(const Dim& dim) const {
    std::set<std::string> symbols;
    dim.CollectSymbols(symbols);
    for (const std::string& symbol : symbols) {
      const auto it = origin_.find(symbol);
      if (it != origin_.end())
        return absl::StrCat(" as input \"", ports_[it->second].name, "\" has it");
    }
    return "";
  }

  const std::vector<CheckedPort>& ports_;
  const std::vector<InputInfo>& inputs_;
  SymbolValues values_;
  std::map<std::string, size_t> origin_;  // the input that gave a symbol its value
};

}  // namespace

std::vector<int64_t> IntElements(const Tensor& tensor) {
  const Tensor dense = tensor.is_dense() ? tensor : tensor.Clone();
  const size_t item = SizeOf(dense.dtype());
  std::vector<int64_t> elements(static_cast<size_t>(dense.num_elements()));
  for (size_t i = 0; i < elements.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(dense.data()) + i * item, item);
    const int unused = static_cast<int>(64 - 8 * item);
    elements[i] = IsSigned(dense.dtype()) ? static_cast<int64_t>(bits << unused) >> unused
                                          : static_cast<int64_t>(bits);
  }
  return elements;
}

absl::StatusOr<SymbolValues> BindSymbols(const std::vector<CheckedPort>& ports,
                                         const std::vector<InputInfo>& inputs) {
  return Binder(ports, inputs).Bind();
}

}  // namespace kiln
