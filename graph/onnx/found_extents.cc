// SPDX-License-Identifier: Apache-2.0
// Extents that only a run finds out: the rows that a mask leaves, what a loop has put together. A
// guard about them is asked by the part of the program that it is in, which is made again where it
// does not hold. Nothing else is made again: what lists of extents and other parts took over from a
// shape under that guard stays. So a value whose extents hold under such a guard alone is measured
// when it is there:
//
//   y : f32 [n] = add(x, found)                    if n == k; else, where n is 1, y has k elements
//   y/found : f32 [y_found] = measure(y) {extents = [y_found]}
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/importer.h"
#include "graph/op.h"
#include "graph/rebuild.h"

namespace kiln::onnx {
namespace {

// An expression of found extents whose text is longer is measured too, before it becomes too long.
constexpr size_t kLongText = 200;

using Names = std::set<std::string>;

Names SymbolsIn(const Dim& dim) {
  Names symbols;
  dim.CollectSymbols(symbols);
  return symbols;
}

bool Meet(const Names& a, const Names& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& name) { return b.count(name) > 0; });
}

// Whether a guard only says that an extent is none below 0: without it there is no result.
bool SaysIsThere(const Guard& guard, const Shape& shape) {
  return guard.kind == Guard::Kind::kAtLeast && guard.number == 0 &&
         std::find(shape.begin(), shape.end(), guard.left) != shape.end();
}

// The symbols that guards from the `first` on are about, where the inputs do not tell all of one.
Names AssumedFor(const Graph& graph, size_t first, const Names& told, const Shape& shape) {
  Names assumed;
  for (size_t k = first; k < graph.guards().size(); ++k) {
    const Guard& guard = graph.guards()[k];
    if (!IsOnlyAbout(guard, told) && !SaysIsThere(guard, shape)) assumed.merge(guard.Symbols());
  }
  return assumed;
}

}  // namespace

std::vector<Guard> Importer::SetAsideFound(Graph& graph) const {
  std::vector<Guard>& guards = graph.mutable_guards();
  if (guards.empty()) return {};
  const Names told = ToldByInputs(*main_.graph);
  const auto found = std::stable_partition(
      guards.begin(), guards.end(), [&](const Guard& guard) { return IsOnlyAbout(guard, told); });
  std::vector<Guard> aside(std::make_move_iterator(found), std::make_move_iterator(guards.end()));
  guards.erase(found, guards.end());
  return aside;
}

absl::Status Importer::Measure(Graph& graph, size_t first, std::vector<Slot>& outputs) {
  std::optional<Names> told;  // found out only where an extent is no number
  for (Slot& slot : outputs) {
    if (!slot.id.valid() || kiln::Constant(graph.value(slot.id).shape)) continue;
    if (!told) told = ToldByInputs(*main_.graph);
    const Value value = graph.value(slot.id);
    const Names assumed = AssumedFor(graph, first, *told, value.shape);
    Shape extents = value.shape;
    for (Dim& dim : extents) {
      const Names symbols = SymbolsIn(dim);
      const bool is_told =
          std::includes(told->begin(), told->end(), symbols.begin(), symbols.end());
      if (Meet(symbols, assumed) || (!is_told && dim.ToString().size() > kLongText))
        dim = symbols_.Fresh(absl::StrCat(value.name, "_found"));
    }
    if (extents == value.shape) continue;
    KILN_ASSIGN_OR_RETURN(
        const std::vector<ValueId> measured,
        graph.AddNode(*FindOp("measure"), {slot.id}, {{"extents", DimsValue(extents)}},
                      absl::StrCat(value.name, "/measure"), {absl::StrCat(value.name, "/found")}));
    slot.id = measured.front();
  }
  return absl::OkStatus();
}

}  // namespace kiln::onnx
