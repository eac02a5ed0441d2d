// SPDX-License-Identifier: Apache-2.0
#include "exec/package/packaged_model.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "exec/fits.h"
#include "exec/script.h"
#include "kiln/dim.h"

namespace kiln {

void PackagedModel::Add(Variant variant) {
  variants_.push_back(std::make_shared<const Variant>(std::move(variant)));
}

absl::StatusOr<std::shared_ptr<const Variant>> PackagedModel::Get(
    const std::vector<InputInfo>& inputs) {
  for (size_t k = 0; k < inputs_.size(); ++k)
    KILN_RETURN_IF_ERROR(CheckPort(inputs_[k], inputs[k]));
  const Guard* broken = nullptr;
  for (const std::shared_ptr<const Variant>& variant : variants_) {
    const Guard* here = nullptr;
    if (!Fits(*variant, inputs, &here)) {
      if (here != nullptr) broken = here;
      continue;
    }
    if (variant->script != nullptr) {
      for (const auto& [slot, constant] : variant->script->constants)
        KILN_RETURN_IF_ERROR(weights_->Check(constant.data(), constant.size_bytes()));
    }
    return variant;
  }
  return NoVariant(inputs, broken);
}

// With the guard that does not hold, or the first extent that no variant takes.
absl::Status PackagedModel::NoVariant(const std::vector<InputInfo>& inputs,
                                      const Guard* broken) const {
  const auto error = [](absl::string_view why) {
    return absl::NotFoundError(absl::StrCat("no variant in the package fits these inputs",
                                            why.empty() ? "" : ": ", why,
                                            "; compile the package with --shapes for them"));
  };
  if (broken != nullptr) return error(absl::StrCat("\"", broken->ToString(), "\" does not hold"));
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].present) continue;
    const std::vector<int64_t>& shape = inputs[k].tensor.shape();
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      std::set<int64_t> taken;
      bool open = false;
      for (const std::shared_ptr<const Variant>& variant : variants_) {
        const program::Port& port = variant->program.inputs(static_cast<int>(k));
        const absl::StatusOr<Dim> dim = Dim::Parse(port.shape(static_cast<int>(axis)));
        const auto extent = dim.ok() ? dim->constant() : std::nullopt;
        open = open || !extent.has_value();
        if (extent.has_value()) taken.insert(*extent);
      }
      if (open || taken.count(shape[axis]) != 0) continue;
      return error(absl::StrCat("input \"", inputs[k].name, "\": dim ", axis, " is ", shape[axis],
                                ", the package has variants for ", absl::StrJoin(taken, ", ")));
    }
  }
  return error("");
}

}  // namespace kiln
