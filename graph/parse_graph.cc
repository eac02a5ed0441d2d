// SPDX-License-Identifier: Apache-2.0
// ParseGraph: with its symbols if the rules of all nodes can say what holds for them, else for
// numbers. A rule with open extents follows the guards that were adopted before it, and has an
// error where these lead to one: other extents, which the guards exclude, may have a result.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/catch_exceptions.h"
#include "graph/parse_sized.h"
#include "graph/rebuild.h"
#include "graph/text.h"

namespace kiln {
namespace {

constexpr size_t kMaxTries = 600;

// Sizes where results begin and end: small ones, and what the guards compare with.
std::vector<int64_t> SizesOfInterest(const std::vector<Guard>& guards) {
  // The middle ones first: an extent of 0 or 1 is the special case.
  std::vector<int64_t> sizes = {3, 4, 2, 5, 1, 6, 0, 7, 8, 9, 10, 12, 16, 20, 32, 64};
  constexpr int64_t kMaxSize = 1 << 20;
  constexpr size_t kMaxSizes = 100;
  const auto add = [&](int64_t number) {
    for (const int64_t size : {number - 1, number, number + 1}) {
      if (size < 0 || size > kMaxSize || sizes.size() == kMaxSizes) continue;
      if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
    }
  };
  for (const Guard& guard : guards) {
    add(guard.number);
    for (const Dim* dim : {&guard.left, &guard.right}) {
      for (const Dim::Term& term : dim->terms()) {
        if (term.atoms.empty() && term.coef > -kMaxSize)
          add(term.coef < 0 ? -term.coef : term.coef);
      }
    }
  }
  return sizes;
}

// Values to try for symbols: all tuples of such sizes, or if these are too many all of small ones
// and then what a fixed sequence draws.
class SizesToTry {
 public:
  SizesToTry(std::set<std::string> symbols, std::vector<int64_t> sizes)
      : symbols_(std::move(symbols)), sizes_(std::move(sizes)) {
    all_ = Tuples(sizes_.size()) <= kMaxTries;
    base_ = all_ ? sizes_.size() : kSmall;
  }

  size_t count() const { return all_ ? Tuples(sizes_.size()) : kMaxTries; }

  std::map<std::string, Dim> Next() {
    std::map<std::string, Dim> values;
    const bool draws = !all_ && next_ >= std::min(Tuples(kSmall), kMaxTries / 2);
    size_t rest = next_++;
    for (const std::string& symbol : symbols_) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      values[symbol] = sizes_[draws ? (state_ >> 33) % sizes_.size() : rest % base_];
      rest /= base_;
    }
    return values;
  }

 private:
  static constexpr size_t kSmall = 7;  // so many of the first sizes

  size_t Tuples(size_t sizes) const {
    size_t tuples = 1;
    for (size_t i = 0; i < symbols_.size() && tuples <= kMaxTries; ++i) tuples *= sizes;
    return tuples;
  }

  const std::set<std::string> symbols_;
  const std::vector<int64_t> sizes_;
  bool all_ = false;
  size_t base_ = 1, next_ = 0;
  uint64_t state_ = 1;
};

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
// `failed` is what was read with symbols.
std::optional<Graph> ForSomeSizes(absl::string_view text, const Graph& failed) {
  constexpr size_t kMinTries = 4, kMaxBytes = size_t{2} << 20;
  const std::set<std::string> symbols = ToldByInputs(failed);
  const bool has_elements =
      std::any_of(failed.inputs().begin(), failed.inputs().end(),
                  [&](ValueId id) { return failed.value(id).shape_content.has_value(); });
  if (symbols.empty() || has_elements) return std::nullopt;  // a Maker knows shapes alone
  SizesToTry sizes(symbols, SizesOfInterest(failed.guards()));
  const size_t affordable = std::max(kMaxBytes / std::max<size_t>(text.size(), 1), kMinTries);
  const size_t tries = std::min(sizes.count(), affordable);
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
  return CatchExceptions("parsing the graph", [&]() -> absl::StatusOr<Graph> {
    ParsedGraph parsed = ParseSized(text, {});
    if (parsed.status.ok()) return std::move(parsed.graph);
    if (!parsed.rule_failed) return parsed.status;
    if (std::optional<Graph> sized = ForSomeSizes(text, parsed.graph)) return *std::move(sized);
    return parsed.status;
  });
}

}  // namespace kiln
