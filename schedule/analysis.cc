// SPDX-License-Identifier: Apache-2.0
#include "schedule/analysis.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernel/canonical.h"
#include "kernel/math.h"

namespace kiln {
namespace {

// Visits every read of a stage: fn(node, reader), reader in the numbering of Expressions().
template <typename Fn>
void ForEachStageRead(const std::vector<const ScalarExpr*>& exprs, Fn&& fn) {
  for (size_t reader = 0; reader < exprs.size(); ++reader) {
    for (const ExprNode& node : exprs[reader]->nodes()) {
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage) fn(node, reader);
    }
  }
}

// Of a division or a root, and of a function, in additions.
constexpr int64_t kDivisionCost = 4, kFunctionCost = 12;  // speed

int64_t CostOf(const ExprNode& node) {
  switch (node.op) {
    case ScalarOp::kConst:
    case ScalarOp::kParam:
      return 0;
    case ScalarOp::kDiv:
    case ScalarOp::kMod:
    case ScalarOp::kSqrt:
      return kDivisionCost;
    case ScalarOp::kRead:
      return node.source == ReadSource::kInput ? 2 : 0;
    default:
      return Info(node.op).function ? kFunctionCost : 1;
  }
}

// True if neighbours along the innermost dim may not be neighbours in memory, so that each lane
// loads for itself. `guarded`: indices may be clamped.
bool IsScattered(const Kernel& kernel, const ExprNode& node, bool guarded) {
  for (size_t axis = 0; axis < node.index.size(); ++axis) {
    const IndexExpr& index = node.index[axis];
    const bool last = axis + 1 == node.index.size();
    for (const IndexExpr::Term& term : index.terms) {
      if (term.extent || term.dim != kernel.innermost()) continue;
      const bool own = index.IsDim() && OperandDims(kernel, node)[axis] == term.dim;
      const bool shifted = !guarded && term.coef == 1 && index.div == 1 && index.mod == 0;
      if (!last || !(own || shifted)) return true;
    }
    if (index.load >= 0) return true;
  }
  return false;
}

// The inputs that each output depends on.
std::vector<std::set<int32_t>> InputsOf(const Kernel& kernel) {
  std::vector<std::set<int32_t>> of;  // stages, then outputs
  for (const ScalarExpr* expr : Expressions(kernel)) {
    std::set<int32_t> inputs;
    for (const ExprNode& node : expr->nodes()) {
      if (node.op != ScalarOp::kRead) continue;
      if (node.source == ReadSource::kInput) {
        inputs.insert(node.ref);
      } else {
        const std::set<int32_t>& stage = of[static_cast<size_t>(node.ref)];
        inputs.insert(stage.begin(), stage.end());
      }
    }
    of.push_back(std::move(inputs));
  }
  of.erase(of.begin(), of.begin() + static_cast<ptrdiff_t>(kernel.stages.size()));
  return of;
}

}  // namespace

bool HasGuard(const ScalarExpr& expr) {
  return std::any_of(expr.nodes().begin(), expr.nodes().end(),
                     [](const ExprNode& node) { return node.op == ScalarOp::kGuard; });
}

bool IsIdentityRead(const ExprNode& node, const std::vector<int32_t>& dims) {
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (!node.index[axis].IsDim() || node.index[axis].terms[0].dim != dims[axis]) return false;
  }
  return true;
}

bool SpansAll(const Kernel& kernel, const std::vector<int32_t>& dims) {
  if (static_cast<int>(dims.size()) != kernel.num_iterated()) return false;
  // Of distinct iterated dims, ascending ones are all; an output that adds has others.
  return std::is_sorted(dims.begin(), dims.end()) &&
         (dims.empty() || dims.back() < kernel.num_iterated());
}

bool SpansOuter(const Kernel& kernel, const std::vector<int32_t>& dims) {
  if (static_cast<int>(dims.size()) != kernel.num_iterated() - 1) return false;
  return std::is_sorted(dims.begin(), dims.end()) &&
         std::find(dims.begin(), dims.end(), kernel.innermost()) == dims.end();
}

int64_t ElementsOf(const SizeClass& sizes, int32_t first, int32_t last) {
  int64_t product = 1;
  for (int32_t d = first; d <= last; ++d) {
    const int64_t extent = sizes.at_most[static_cast<size_t>(d)];
    product = extent > INT32_MAX / std::max<int64_t>(1, product) ? INT32_MAX : product * extent;
  }
  return product;
}

bool OutputsInOrder(const Kernel& kernel, bool rows) {
  return std::all_of(kernel.outputs.begin(), kernel.outputs.end(), [&](const KernelOutput& output) {
    return output.layout == Layout::kDense &&
           (SpansAll(kernel, output.dims) || (rows && SpansOuter(kernel, output.dims)));
  });
}

Decision StagesReadInPlace(const Kernel& kernel) {
  for (const ScalarExpr* expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes()) {
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage &&
          !IsIdentityRead(node, OperandDims(kernel, node))) {
        return Decision::No("a stage is read at another element than the reader's own");
      }
    }
  }
  return Decision::Yes();
}

int64_t Cost(const ScalarExpr& expr) {
  int64_t cost = 0;
  for (const ExprNode& node : expr.nodes()) cost += CostOf(node);
  return cost;
}

namespace {

using Sizes = std::array<int64_t, kNumScalarOps>;

// ExpandedSize of all ops.
Sizes SizesFor(DType type) {
  Sizes sizes;
  for (size_t op = 0; op < sizes.size(); ++op)
    sizes[op] = ExpandedSize(static_cast<ScalarOp>(op), type);
  return sizes;
}

}  // namespace

int64_t Operations(const ExprNode& node) {
  static const Sizes narrow = SizesFor(DType::kF32), wide = SizesFor(DType::kF64);
  return (node.type == DType::kF64 ? wide : narrow)[static_cast<size_t>(node.op)];
}

int64_t Operations(const ScalarExpr& expr) {
  int64_t operations = 0;
  for (const ExprNode& node : expr.nodes()) operations += Operations(node);
  return operations;
}

namespace {

// Those of loops: a map over no dims is computed once.
std::vector<const ScalarExpr*> LoopExpressions(const Kernel& kernel) {
  std::vector<const ScalarExpr*> exprs = Expressions(kernel);
  for (size_t i = kernel.stages.size(); i-- > 0 && kernel.num_iterated() > 0;) {
    const Stage& stage = kernel.stages[i];
    if (stage.kind == Stage::Kind::kMap && stage.dims.empty())
      exprs.erase(exprs.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return exprs;
}

int64_t OperationsOf(const std::vector<const ScalarExpr*>& exprs) {
  int64_t operations = 0;
  for (const ScalarExpr* expr : exprs) operations += Operations(*expr);
  return operations;
}

}  // namespace

int64_t CompileWork(const Kernel& kernel) {
  constexpr int64_t kReducedDim = 40, kScalars = 4;  // compile time
  const int64_t loops = OperationsOf(LoopExpressions(kernel));
  int64_t work = loops + (OperationsOf(Expressions(kernel)) - loops) / kScalars;
  for (const Stage& stage : kernel.stages)
    work += kReducedDim * static_cast<int64_t>(stage.over.size());
  return work;
}

int64_t GrainFor(const Kernel& kernel, const Machine& machine) {
  constexpr int64_t kFewOperations = 16, kLeastGrain = 2048;  // speed
  const int64_t operations = OperationsOf(LoopExpressions(kernel));
  const int64_t grain =
      machine.parallel_grain * kFewOperations / std::max(kFewOperations, operations);
  // Halide folds splits by other numbers into constants that overflow.
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(grain)));
  return std::max(power, std::min(kLeastGrain, machine.parallel_grain));
}

SizeClass WidestReduced(const Kernel& kernel, const SizeClass& known) {
  constexpr int64_t kMost =
      kOuterReduceBlock * kOuterReduceBlock * kOuterReduceBlock * kOuterReduceBlock;
  int reduced = 0;
  SizeClass widest = known;
  for (const Stage& stage : kernel.stages) {
    for (const int32_t dim : stage.over) {
      if (dim == kernel.innermost()) continue;
      ++reduced;
      int64_t& extent = widest.at_most[static_cast<size_t>(dim)];
      extent = std::min(extent, kMost);
    }
  }
  return reduced > 1 ? widest : known;
}

namespace {

// What each further loop over the innermost dim saves where a map is stored: its operations, and
// all that it reads along the loop but one, since it is read itself.
int64_t SavedByStoring(const Kernel& kernel, const ScalarExpr& expr) {
  const auto varies = [&](const ExprNode& read) {
    return std::any_of(read.index.begin(), read.index.end(), [&](const IndexExpr& index) {
      return index.load >= 0 ||
             std::any_of(index.terms.begin(), index.terms.end(), [&](const auto& term) {
               return !term.extent && term.dim == kernel.innermost();
             });
    });
  };
  int64_t operations = 0, reads = 0;
  for (const ExprNode& node : expr.nodes()) {
    if (node.op != ScalarOp::kRead) {
      operations += CostOf(node);
    } else if (varies(node)) {
      reads += CostOf(node);
    }
  }
  ExprNode own;
  own.op = ScalarOp::kRead;
  return operations + std::max<int64_t>(0, reads - CostOf(own));
}

}  // namespace

std::vector<bool> MapsToMaterialise(const Kernel& kernel, const MaterialiseRule& rule) {
  const size_t stages = kernel.stages.size();
  const std::vector<const ScalarExpr*> exprs = Expressions(kernel);
  std::vector<std::set<size_t>> readers(stages);
  std::vector<bool> reindexed(stages, false);
  ForEachStageRead(exprs, [&](const ExprNode& node, size_t reader) {
    const auto stage = static_cast<size_t>(node.ref);
    readers[stage].insert(reader);
    if (!IsIdentityRead(node, kernel.stages[stage].dims)) reindexed[stage] = true;
  });
  std::vector<bool> kept(stages, false);
  std::vector<std::set<size_t>> passes(
      stages);  // loops that need a stage: itself if stored, else those of its readers
  for (size_t i = stages; i-- > 0;) {
    std::set<size_t> loops;
    for (const size_t reader : readers[i]) {
      const bool stored =
          reader >= stages || kept[reader] || kernel.stages[reader].kind == Stage::Kind::kReduce;
      if (stored) {
        loops.insert(reader);
      } else {
        loops.insert(passes[reader].begin(), passes[reader].end());
      }
    }
    passes[i] = std::move(loops);
    if (kernel.stages[i].kind != Stage::Kind::kMap) continue;
    const int64_t cost = SavedByStoring(kernel, kernel.stages[i].expr);
    kept[i] = (rule.reindexed && reindexed[i]) ||
              cost >= (passes[i].size() > 1 ? rule.shared_cost : rule.single_cost);
  }
  return kept;
}

int64_t LanesForRow(int64_t lanes, int64_t row) {
  while (lanes > kLeastLanes && lanes / 2 >= row) lanes /= 2;
  return lanes;
}

int64_t LanesFor(const Kernel& kernel, const Machine& machine, int64_t vectors) {
  const auto is_i64 = [](const auto& made) { return made.type == DType::kI64; };
  const bool makes_i64 = std::any_of(kernel.stages.begin(), kernel.stages.end(), is_i64) ||
                         std::any_of(kernel.outputs.begin(), kernel.outputs.end(), is_i64);
  size_t widest = 1;
  bool divides = false, scattered = false;
  for (const ScalarExpr* expr : LoopExpressions(kernel)) {
    const bool guarded = HasGuard(*expr);
    for (const ExprNode& node : expr->nodes()) {
      // Coordinates and indices are 64 bits wide but rarely the bulk of the work; constants are
      // registers.
      if (node.op != ScalarOp::kConst && (node.type != DType::kI64 || makes_i64)) {
        widest = std::max(widest, SizeOf(node.type));
      }
      divides =
          divides || (IsInt(node.type) && (node.op == ScalarOp::kDiv || node.op == ScalarOp::kMod));
      scattered = scattered || (node.op == ScalarOp::kRead && IsScattered(kernel, node, guarded));
    }
  }
  for (const KernelInput& input : kernel.inputs)
    scattered = scattered || input.layout == Layout::kStrided;
  for (const KernelOutput& output : kernel.outputs) {
    const bool transposed = !output.dims.empty() && output.dims.back() != kernel.innermost();
    const bool spans = static_cast<int>(output.dims.size()) == kernel.num_iterated();
    scattered = scattered || output.layout == Layout::kStrided || (transposed && spans);
  }
  // What vector units cannot do becomes code of its own for every lane.
  if (divides) return kLeastLanes;
  if (scattered) vectors = 1;
  // Vectors side by side hide latencies, but the time that compiling takes grows faster than them.
  constexpr int64_t kMostOfFour = 350, kMostOfTwo = 700;  // compile time
  const int64_t work = CompileWork(kernel);
  if (work > kMostOfFour) vectors = std::min<int64_t>(vectors, 2);
  if (work > kMostOfTwo) vectors = 1;
  return std::max(kLeastLanes, vectors * machine.vector_bytes / static_cast<int64_t>(widest));
}

bool ReadsWholeRows(const Kernel& kernel) {
  for (const KernelInput& input : kernel.inputs) {
    const bool row = !input.dims.empty() && input.dims.back() == kernel.innermost() &&
                     std::is_sorted(input.dims.begin(), input.dims.end());
    const bool one = input.dims.empty() || SpansOuter(kernel, input.dims);
    if (input.layout != Layout::kDense || (!row && !one)) return false;
  }
  for (const ScalarExpr* expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes()) {
      const bool outer = node.op == ScalarOp::kIndex && node.ref != kernel.innermost();
      if (outer && kernel.num_iterated() > 2) return false;
    }
  }
  return true;
}

namespace {

// True if `holds(node)` for all reads of the input.
template <typename Fn>
bool AllReads(const Kernel& kernel, size_t input, Fn&& holds) {
  for (const ScalarExpr* expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes()) {
      const bool read = node.op == ScalarOp::kRead && node.source == ReadSource::kInput &&
                        node.ref == static_cast<int32_t>(input);
      if (read && !holds(node)) return false;
    }
  }
  return true;
}

bool IsReadAtOwnElement(const Kernel& kernel, size_t input) {
  return AllReads(kernel, input, [&](const ExprNode& node) {
    return IsIdentityRead(node, kernel.inputs[input].dims);
  });
}

// True if reads of the input are along rows of it, each at the reader's own outer dims.
bool IsReadAlongRows(const Kernel& kernel, size_t input) {
  const std::vector<int32_t>& dims = kernel.inputs[input].dims;
  if (dims.size() != static_cast<size_t>(kernel.num_iterated())) return false;
  for (size_t axis = 0; axis + 1 < dims.size(); ++axis)
    if (dims[axis] != static_cast<int32_t>(axis)) return false;
  return AllReads(kernel, input, [&](const ExprNode& node) {
    for (size_t axis = 0; axis + 1 < dims.size(); ++axis)
      if (!node.index[axis].IsDim() || node.index[axis].terms[0].dim != dims[axis]) return false;
    return true;
  });
}

}  // namespace

int64_t DivisorOf(const Kernel& kernel, size_t input) {
  const KernelInput& operand = kernel.inputs[input];
  if (operand.layout != Layout::kDense || operand.dims.empty()) return 0;
  int64_t divisor = 0;
  const bool all = AllReads(kernel, input, [&](const ExprNode& node) {
    for (size_t axis = 0; axis + 1 < node.index.size(); ++axis) {
      const IndexExpr& index = node.index[axis];
      if (!index.IsDim() || index.terms[0].dim != operand.dims[axis]) return false;
    }
    IndexExpr last = node.index.back();
    if (last.div < 2 || (divisor != 0 && divisor != last.div)) return false;
    divisor = last.div;
    last.div = 1;
    return last.IsDim() && last.terms[0].dim == kernel.innermost();
  });
  return all ? divisor : 0;
}

std::vector<int64_t> GroupedBroadcasts(const Kernel& kernel, const SizeClass& sizes) {
  // Quotients of a table, repeats included: it stays in the cache.
  constexpr int64_t kMostGroupedElements = 16384;  // speed
  std::vector<int64_t> tables;
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const std::vector<int32_t>& dims = kernel.inputs[i].dims;
    if (DivisorOf(kernel, i) == 0) continue;
    const int32_t x = kernel.innermost(), first = x + 1 - static_cast<int32_t>(dims.size());
    bool run = first >= 0;  // its dims but the last are those before x
    for (size_t axis = 0; run && axis + 1 < dims.size(); ++axis)
      run = dims[axis] == first + static_cast<int32_t>(axis);
    if (run && ElementsOf(sizes, first, x) <= kMostGroupedElements)
      tables.push_back(static_cast<int64_t>(i));
  }
  return tables;
}

bool IsReadInPlace(const Kernel& kernel, size_t input) {
  const KernelInput& operand = kernel.inputs[input];
  if (operand.layout != Layout::kDense || !SpansAll(kernel, operand.dims)) return false;
  return IsReadAtOwnElement(kernel, input);
}

bool ReadsInOrder(const Kernel& kernel) {
  if (!StagesReadInPlace(kernel)) return false;
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const KernelInput& input = kernel.inputs[i];
    const bool in_order = std::is_sorted(input.dims.begin(), input.dims.end());
    if (input.layout != Layout::kDense || !in_order || !IsReadAtOwnElement(kernel, i)) return false;
  }
  return true;
}

std::optional<std::vector<int64_t>> BroadcastsToExpand(const Kernel& kernel, const SizeClass& sizes,
                                                       int32_t first, int32_t last) {
  constexpr int64_t kLongest = 4096, kLeastRepeats = 8;  // speed
  const int64_t longest = std::min(kLongest, ElementsOf(sizes, 0, last) / kLeastRepeats);
  const auto in_run = [&](int32_t dim) { return first <= dim && dim <= last; };
  const bool rows = last < kernel.innermost();
  if (!StagesReadInPlace(kernel)) return std::nullopt;
  for (const ScalarExpr* expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes())
      if (node.op == ScalarOp::kIndex && in_run(node.ref)) return std::nullopt;
  }
  std::vector<int64_t> tables;
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const std::vector<int32_t>& dims = kernel.inputs[i].dims;
    if (std::none_of(dims.begin(), dims.end(), in_run)) continue;
    if (kernel.inputs[i].layout != Layout::kDense) return std::nullopt;
    if (IsReadInPlace(kernel, i) || (rows && IsReadAlongRows(kernel, i))) continue;
    if (!IsReadAtOwnElement(kernel, i)) return std::nullopt;
    if (rows && SpansOuter(kernel, dims)) continue;
    const int32_t from = *std::min_element(dims.begin(), dims.end());
    const bool last_axis = std::max_element(dims.begin(), dims.end()) == dims.end() - 1;
    if (!last_axis || ElementsOf(sizes, from, last) > longest) return std::nullopt;
    tables.push_back(static_cast<int64_t>(i));
  }
  return tables;
}

std::vector<std::pair<int32_t, int32_t>> ElementwisePairs(const Kernel& kernel) {
  if (kernel.outputs.empty() || !OutputsInOrder(kernel, /*rows=*/false)) return {};
  const std::vector<std::set<int32_t>> reads = InputsOf(kernel);
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const KernelInput& input = kernel.inputs[i];
    if (!IsReadInPlace(kernel, i)) continue;
    // The values of an element are stored one after the other: what follows must not need it.
    for (size_t o = kernel.outputs.size(); o-- > 0;) {
      if (SizeOf(input.type) == SizeOf(kernel.outputs[o].type)) {
        pairs.emplace_back(static_cast<int32_t>(i), static_cast<int32_t>(o));
      }
      if (reads[o].count(static_cast<int32_t>(i)) != 0) break;
    }
  }
  return pairs;
}

int32_t TransposedAlong(const Kernel& kernel, size_t input) {
  const KernelInput& operand = kernel.inputs[input];
  const int32_t x = kernel.innermost();
  const std::vector<int32_t>& dims = operand.dims;
  if (operand.layout != Layout::kDense || dims.empty() || dims.back() == x) return -1;
  if (dims.back() > x || std::find(dims.begin(), dims.end(), x) == dims.end()) return -1;
  if (std::any_of(dims.begin(), dims.end(), [x](int32_t dim) { return dim > x; })) return -1;
  if (!IsReadAtOwnElement(kernel, input)) return -1;
  return dims.back();
}

int64_t LevelsFor(int64_t extent, int64_t block) {
  int64_t levels = 1;
  for (int64_t blocks = extent; blocks > block; ++levels) blocks = (blocks + block - 1) / block;
  return levels;
}

int64_t AccumulatorsFor(int64_t row) {
  for (const int64_t few : {2, 4, 8, 16, 32, 48})  // compile time: each is other code
    if (row <= few) return few;
  return kReduceLanes;
}

}  // namespace kiln
