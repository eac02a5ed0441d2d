// SPDX-License-Identifier: Apache-2.0
// ParseGraph: with its symbols if the rules of all nodes can say what holds for them, else for
// numbers. A rule with open extents follows the guards that were adopted before it, and has an
// error where these lead to one: other extents, which the guards exclude, may have a result.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kiln/graph/parse_sized.h"
#include "kiln/graph/rebuild.h"
#include "kiln/graph/text.h"

namespace kiln {
namespace {

// Sizes to try for symbols: all tuples of small ones, then what a fixed sequence draws.
class SizesToTry {
 public:
  explicit SizesToTry(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {
    for (size_t i = 0; i < symbols_.size() && tuples_ < kMaxTuples; ++i) tuples_ *= kSmall;
    tuples_ = std::min(tuples_, kMaxTuples);
  }

  std::map<std::string, Dim> Next() {
    std::map<std::string, Dim> sizes;
    // The middle ones first: an extent of 0 or 1 is the special case.
    constexpr int64_t kOrder[kSmall] = {3, 4, 2, 5, 1, 6, 0};
    constexpr int64_t kDrawn[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 32, 64};
    uint64_t rest = count_++;
    const bool draws = rest >= tuples_;
    for (const std::string& symbol : symbols_) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      sizes[symbol] = draws ? kDrawn[(state_ >> 33) % std::size(kDrawn)] : kOrder[rest % kSmall];
      rest /= kSmall;
    }
    return sizes;
  }

 private:
  static constexpr uint64_t kSmall = 7, kMaxTuples = 343;

  const std::vector<std::string> symbols_;
  uint64_t tuples_ = 1, count_ = 0, state_ = 1;
};

std::vector<std::string> LearnedSymbols(const Graph& graph) {
  std::set<std::string> symbols;
  for (const ValueId id : graph.inputs()) {
    for (const Dim& dim : graph.value(id).shape) {
      if (std::string symbol = SymbolOf(dim); !symbol.empty()) symbols.insert(std::move(symbol));
    }
  }
  return {symbols.begin(), symbols.end()};
}

// Graphs for other inputs than these are parsed again, with numbers.
std::shared_ptr<const Graph::Maker> MakerOf(absl::string_view text, const Graph& graph) {
  Graph inputs;
  for (const ValueId id : graph.inputs())
    inputs.AddInput(graph.value(id).name, graph.value(id).type, graph.value(id).shape);
  return std::make_shared<const Graph::Maker>(
      [text = std::string(text),
       inputs = std::move(inputs)](const std::vector<Shape>& shapes) -> absl::StatusOr<Graph> {
        ParsedGraph parsed = ParseSized(text, {SymbolsSaidBy(inputs, shapes), shapes});
        if (!parsed.status.ok()) return parsed.status;
        return std::move(parsed.graph);
      });
}

// The graph for some sizes at which it has a result, under guards that say these sizes.
std::optional<Graph> ForSomeSizes(absl::string_view text, const Graph& inputs) {
  constexpr size_t kMaxTries = 1000, kMinTries = 4, kMaxBytes = size_t{2} << 20;
  const std::vector<std::string> symbols = LearnedSymbols(inputs);
  const bool has_elements =
      std::any_of(inputs.inputs().begin(), inputs.inputs().end(),
                  [&](ValueId id) { return inputs.value(id).shape_content.has_value(); });
  if (symbols.empty() || has_elements) return std::nullopt;  // a Maker knows shapes alone
  const size_t tries =
      std::clamp(kMaxBytes / std::max<size_t>(text.size(), 1), kMinTries, kMaxTries);
  SizesToTry sizes(symbols);
  for (size_t i = 0; i < tries; ++i) {
    ParsedGraph parsed = ParseSized(text, {sizes.Next(), {}, true});
    if (!parsed.status.ok()) continue;
    parsed.graph.maker = MakerOf(text, parsed.graph);
    return std::move(parsed.graph);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Graph> ParseGraph(absl::string_view text) {
  ParsedGraph parsed = ParseSized(text, {});
  if (parsed.status.ok()) return std::move(parsed.graph);
  if (!parsed.rule_failed) return parsed.status;
  if (std::optional<Graph> sized = ForSomeSizes(text, parsed.graph)) return *std::move(sized);
  return parsed.status;
}

}  // namespace kiln
