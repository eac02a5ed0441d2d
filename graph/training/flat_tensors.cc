// SPDX-License-Identifier: Apache-2.0
#include "graph/training/flat_tensors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"

namespace kiln::training {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 62;
constexpr int64_t kAlignment = 64;  // bytes

absl::StatusOr<int64_t> ElementsOf(const NamedShape& tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements))
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\": extent ",
                                                     extent,
                                                     " is negative, or the elements are too many"));
  }
  return elements;
}

ValueId Reshaped(GraphBuilder& b, ValueId x, std::vector<int64_t> shape) {
  return b.Op("reshape", {x}, {{"shape", std::move(shape)}, {"allowzero", int64_t{1}}});
}

}  // namespace

absl::StatusOr<FlatLayout> LayOut(const std::vector<NamedShape>& tensors, DType type) {
  const int64_t aligned = kAlignment / static_cast<int64_t>(SizeOf(type));
  FlatLayout layout;
  std::set<std::string> names;
  for (const NamedShape& tensor : tensors) {
    const absl::StatusOr<int64_t> elements = ElementsOf(tensor);
    if (!elements.ok()) return elements.status();
    if (!names.insert(tensor.name).second)
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", tensor.name, "\" stands twice; rename one"));
    layout.parts.push_back({tensor.name, tensor.shape, 0, *elements});
  }
  for (const bool keeps_alignment : {true, false}) {
    for (FlatLayout::Part& part : layout.parts) {
      if ((part.elements % aligned == 0) != keeps_alignment) continue;
      part.offset = layout.elements;
      if (part.elements > kMostElements - layout.elements)
        return absl::InvalidArgumentError(
            absl::StrCat("tensors up to \"", part.name, "\" have more than 2^62 elements"));
      layout.elements += part.elements;
    }
  }
  return layout;
}

std::vector<ValueId> Parts(GraphBuilder& b, const FlatLayout& layout, ValueId flat) {
  std::vector<ValueId> parts;
  for (const FlatLayout::Part& part : layout.parts) {
    const std::vector<int64_t> from = {part.offset}, to = {part.offset + part.elements};
    const ValueId range = b.Op("slice", {flat}, {{"starts", from}, {"ends", to}});
    parts.push_back(Reshaped(b, range, part.shape));
  }
  return parts;
}

ValueId Flat(GraphBuilder& b, const FlatLayout& layout, const std::vector<ValueId>& parts) {
  std::vector<std::pair<int64_t, ValueId>> rows;  // by their offsets; empty ones take no room
  for (size_t k = 0; k < parts.size(); ++k) {
    const FlatLayout::Part& part = layout.parts[k];
    if (part.elements > 0) rows.emplace_back(part.offset, Reshaped(b, parts[k], {part.elements}));
  }
  std::sort(rows.begin(), rows.end());
  std::vector<ValueId> inputs;
  for (const auto& [offset, row] : rows) inputs.push_back(row);
  return b.Op("concat", inputs, {{"axis", int64_t{0}}});
}

}  // namespace kiln::training
