// SPDX-License-Identifier: Apache-2.0
// A concat of many parts becomes a concat of concats: each part has an extent of its own, and a
// kernel has no more than a few dozen (kernel/kernel.h).
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "fusion/pass.h"
#include "fusion/rewrite.h"

namespace kiln {
namespace {

constexpr std::ptrdiff_t kMostParts = 16;  // compile time

Found Split(Graph& graph, const Node& node, const PassContext&) {
  if (!Is(node, "concat") || std::ssize(node.inputs) <= kMostParts) return std::nullopt;
  std::vector<ValueId> joined;
  for (auto first = node.inputs.begin(); first != node.inputs.end();) {
    const auto last = first + std::min(kMostParts, node.inputs.end() - first);
    const Found part = Made(graph, "concat", {first, last}, node.attrs, node.name);
    if (!part) return std::nullopt;
    joined.push_back(*part);
    first = last;
  }
  return Made(graph, "concat", std::move(joined), node.attrs, node.name);
}

}  // namespace

absl::StatusOr<bool> SplitConcats(Graph& graph, const PassContext& context) {
  static constexpr Rule kSplitConcatsRules[] = {Split};
  return Rewrite(graph, kSplitConcatsRules, context);
}

}  // namespace kiln
