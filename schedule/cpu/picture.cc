// SPDX-License-Identifier: Apache-2.0
#include "schedule/cpu/picture.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedule/loop_counts.h"
#include "schedule/read_price.h"

namespace kiln {
namespace {

class Painter {
 public:
  Painter(const LoopCounts& counts, const Schedule& schedule, const Machine& machine)
      : counts_(counts), loops_(counts.loops()), schedule_(schedule), machine_(machine) {}

  std::string Run() const {
    std::string text = Steps();
    const bool each = loops_.nests == LoopSummary::Nests::kEach;
    if (!each) absl::StrAppend(&text, Nest(), "\n");
    for (size_t e = 0; e < counts_.size(); ++e) {
      const std::string line = Expression(e);
      if (!line.empty()) absl::StrAppend(&text, each ? "for all of " : "  ", line, "\n");
    }
    absl::StrAppend(&text, "reads\n", Reads());
    return text;
  }

 private:
  using Nests = LoopSummary::Nests;
  using Across = LoopSummary::Across;

  const std::string& DimName(int32_t dim) const {
    return counts_.kernel().dims[static_cast<size_t>(dim)].name;
  }
  std::string DimNames(const std::vector<int32_t>& dims) const {
    return absl::StrJoin(dims, ", ", [&](std::string* out, int32_t dim) { *out += DimName(dim); });
  }
  std::string ExprName(size_t e) const {
    const size_t stages = counts_.kernel().stages.size();
    return counts_.IsStage(e) ? absl::StrCat("s", e) : absl::StrCat("out", e - stages);
  }

  std::string Steps() const {
    const int64_t lanes = machine_.vector_bytes / 4;
    const int64_t vectors = std::max<int64_t>(1, loops_.step / lanes);
    std::string text =
        absl::StrCat("tasks of about ", schedule_.Info().task, " elements; steps of ", loops_.step,
                     " elements are ", vectors, vectors == 1 ? " vector" : " vectors", " along ",
                     DimName(counts_.lane_dim()), "\n");
    if (loops_.row_dims > 1)
      absl::StrAppend(&text, "the last ", loops_.row_dims, " dims are collapsed\n");
    if (loops_.links > 1)
      absl::StrAppend(&text, "the chain is cut into ", loops_.links, " loops over strips\n");
    if (loops_.segments == LoopSummary::Segments::kInTurn)
      absl::StrAppend(&text, "a row runs segment by segment\n");
    if (loops_.segments == LoopSummary::Segments::kBlended)
      absl::StrAppend(&text, "a row runs at once, each lane takes its segment's value\n");
    return text;
  }

  std::string Nest() const {
    const std::string several =
        loops_.folds_together ? ", whose trees fold together"
        : loops_.batch > 1    ? absl::StrCat(", ", loops_.batch, " one after the other in a stage")
                              : "";
    if (loops_.across == Across::kUnrolled) return "for a vector of rows, each row unrolled";
    if (loops_.across == Across::kTransposed) return "for a tile of rows, transposed in registers";
    if (loops_.across == Across::kBlocks) return "for a vector of whole blocks";
    if (loops_.nests == Nests::kRows) return absl::StrCat("for each row", several);
    if (loops_.nests == Nests::kTiles)
      return absl::StrCat("for each tile of ", loops_.columns, " columns", several);
    if (loops_.along >= 0) {
      return absl::StrCat("for tiles of 8 x ", loops_.tile, " elements, ",
                          loops_.tiles > 1
                              ? absl::StrCat(loops_.tiles, " along the row")
                              : absl::StrCat("along ", DimName(static_cast<int32_t>(loops_.along))),
                          " before the next");
    }
    return "for each row";
  }

  std::string Expression(size_t e) const {
    const std::vector<int32_t>& dims = counts_.Dims(e);
    std::string text = absl::StrFormat("%-5s[%s]", ExprName(e), DimNames(dims));
    if (!counts_.IsStage(e)) return text;
    if (!counts_.IsReduction(e)) return counts_.Kept(e) ? text + "  stored" : "";
    const Stage& stage = counts_.stage(e);
    absl::StrAppend(&text, " = ", Name(stage.op), " over ", DimNames(stage.over), "  ");
    if (!counts_.ByTiles(e)) {
      const bool waits = counts_.AwaitedByRow(e);
      return absl::StrCat(text, kReduceLanes, " lanes, which fold at the end of a row",
                          waits ? "; loops over the row wait for it" : "");
    }
    return absl::StrCat(text, "tiles of ", loops_.columns, " columns, ",
                        loops_.sums_in_cache ? "sums in the nearest cache" : "sums in registers",
                        ", ", loops_.strides ? "down the whole column" : "32 rows at a time");
  }

  // How each input is read, by which expressions.
  std::string Reads() const {
    std::map<int32_t, std::vector<std::string>> by_input;
    for (size_t e = 0; e < counts_.size(); ++e) {
      for (const ExprNode& node : counts_.expr(e).nodes()) {
        if (node.op != ScalarOp::kRead || node.source != ReadSource::kInput) continue;
        std::vector<std::string>& ways = by_input[node.ref];
        std::string way = absl::StrCat("by ", ExprName(e), " ", Way(e, node));
        if (std::find(ways.begin(), ways.end(), way) == ways.end()) ways.push_back(std::move(way));
      }
    }
    std::string text;
    for (const auto& [input, ways] : by_input)
      absl::StrAppend(&text, absl::StrFormat("  in%-3d", input), absl::StrJoin(ways, ", "), "\n");
    return text;
  }

  std::string Way(size_t e, const ExprNode& node) const {
    if (loops_.expanded[static_cast<size_t>(node.ref)]) return "from an expanded copy";
    if (!VariesAlong(node, {counts_.lane_dim()})) return "one element for a vector";
    if (ReadsAlongLanes(counts_, e, node)) return "along vectors";
    return loops_.transposes ? "in tiles that are transposed" : "element by element";
  }

  const LoopCounts& counts_;
  const LoopSummary& loops_;
  const Schedule& schedule_;
  const Machine& machine_;
};

}  // namespace

std::string CpuPicture(const Kernel& kernel, std::span<const int64_t> extents,
                       const Schedule& schedule, const Machine& machine) {
  const LoopCounts counts(kernel, extents, schedule.Loops(kernel));
  return Painter(counts, schedule, machine).Run();
}

}  // namespace kiln
