// SPDX-License-Identifier: Apache-2.0
// The order of commutative operands. A node's hash is made of the hashes of what it computes from,
// bottom-up; operands of the kernel, which look alike from below, are told apart by where they are
// used, over a few rounds (colour refinement).
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "kernel/canonical_flat.h"
#include "kernel/hash.h"

namespace kiln::canonical_internal {
namespace {

constexpr int kRounds = 4;

class Colorer {
 public:
  explicit Colorer(const Flat& flat)
      : flat_(flat),
        live_(Live(flat)),
        below_(live_.size(), 0),
        above_(live_.size(), 0),
        input_(flat.inputs.size(), 1),
        param_(flat.params.size(), 2),
        size_(flat.dims.size(), 3) {}

  Colors Run() {
    for (int round = 0; round < kRounds; ++round) {
      Below();
      Above();
      if (round + 1 < kRounds) Refine();
    }
    Colors colors;
    colors.node = below_;
    for (const FlatOutput& output : flat_.outputs) colors.output.push_back(OutputHash(output));
    return colors;
  }

 private:
  uint64_t DimColor(int32_t dim) const {
    return dim < flat_.num_iterated ? static_cast<uint64_t>(dim) : size_[static_cast<size_t>(dim)];
  }
  uint64_t InputColor(size_t k) const {
    const KernelInput& input = flat_.inputs[k];
    uint64_t hash = HashMix(
        input_[k], static_cast<uint64_t>(input.type) * 4 + static_cast<uint64_t>(input.layout));
    for (const int32_t dim : input.dims) hash = HashMix(hash, DimColor(dim));
    return hash;
  }
  uint64_t IndexColor(const IndexExpr& index) const {
    uint64_t terms = 0;  // a sum: sizes among them have no order yet
    for (const IndexExpr::Term& term : index.terms) {
      terms += HashMix(HashMix(DimColor(term.dim), term.extent ? 1 : 0),
                       static_cast<uint64_t>(term.coef));
    }
    uint64_t hash = HashMix(terms, static_cast<uint64_t>(index.offset));
    hash =
        HashMix(HashMix(hash, static_cast<uint64_t>(index.div)), static_cast<uint64_t>(index.mod));
    return index.load < 0 ? hash : HashMix(hash, below_[static_cast<size_t>(index.load)]);
  }
  uint64_t LeafColor(const ExprNode& node) const {
    const auto ref = static_cast<size_t>(node.ref);
    if (node.op == ScalarOp::kParam) return param_[ref];
    if (node.op == ScalarOp::kIndex || node.op == ScalarOp::kExtent) return DimColor(node.ref);
    if (node.op == ScalarOp::kConst) return node.imm;
    if (node.op != ScalarOp::kRead) return 0;
    if (node.source == ReadSource::kInput) return InputColor(ref);
    const FlatStage& stage = flat_.stages[ref];
    const uint64_t kind = stage.reduce ? 1 + static_cast<uint64_t>(stage.op) : 0;
    return HashMix(HashMix(kind, stage.over), below_[static_cast<size_t>(stage.expr)]);
  }

  void Below() {
    for (size_t i = 0; i < live_.size(); ++i) {
      if (!live_[i]) continue;
      const ExprNode& node = flat_.graph.nodes()[i];
      uint64_t hash = HashMix(static_cast<uint64_t>(node.op), static_cast<uint64_t>(node.type));
      hash = HashMix(HashMix(hash, static_cast<uint64_t>(node.aux)), LeafColor(node));
      for (const IndexExpr& index : node.index) hash = HashMix(hash, IndexColor(index));
      uint64_t args[3] = {0, 0, 0};
      for (int slot = 0; slot < Info(node.op).arity; ++slot)
        args[slot] = below_[static_cast<size_t>(node.args[slot])];
      if (Info(node.op).commutative && args[1] < args[0]) std::swap(args[0], args[1]);
      for (const uint64_t arg : args) hash = HashMix(hash, arg);
      below_[i] = hash;
    }
  }

  uint64_t OutputHash(const FlatOutput& output) const {
    uint64_t hash =
        HashMix(below_[static_cast<size_t>(output.expr)],
                static_cast<uint64_t>(output.type) * 4 + static_cast<uint64_t>(output.layout));
    for (const int32_t dim : output.dims) hash = HashMix(hash, DimColor(dim));
    return hash;
  }

  // Sums over users: they have no order either.
  void Above() {
    std::fill(above_.begin(), above_.end(), 0);
    for (const FlatOutput& output : flat_.outputs)
      above_[static_cast<size_t>(output.expr)] += HashMix(OutputHash(output), 17);
    for (size_t i = live_.size(); i-- > 0;) {
      if (!live_[i]) continue;
      const ExprNode& node = flat_.graph.nodes()[i];
      const uint64_t here = HashMix(below_[i], above_[i]);
      for (int slot = 0; slot < Info(node.op).arity; ++slot) {
        const uint64_t place = Info(node.op).commutative ? 0 : static_cast<uint64_t>(slot);
        above_[static_cast<size_t>(node.args[slot])] += HashMix(here, place);
      }
      for (size_t k = 0; k < node.index.size(); ++k) {
        if (node.index[k].load >= 0)
          above_[static_cast<size_t>(node.index[k].load)] += HashMix(here, 8 + k);
      }
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage) {
        above_[static_cast<size_t>(flat_.stages[static_cast<size_t>(node.ref)].expr)] +=
            HashMix(here, 7);
      }
    }
  }

  void Refine() {
    std::vector<uint64_t> inputs(input_.size(), 0);
    std::vector<uint64_t> params(param_.size(), 0);
    std::vector<uint64_t> sizes(size_.size(), 0);
    for (size_t i = 0; i < live_.size(); ++i) {
      if (!live_[i]) continue;
      const ExprNode& node = flat_.graph.nodes()[i];
      const uint64_t here = HashMix(below_[i], above_[i]);
      const auto ref = static_cast<size_t>(node.ref);
      if (node.op == ScalarOp::kParam) params[ref] += here;
      if (node.op == ScalarOp::kExtent) sizes[ref] += here;
      if (node.op != ScalarOp::kRead) continue;
      for (const IndexExpr& index : node.index) {
        for (const IndexExpr::Term& term : index.terms)
          sizes[static_cast<size_t>(term.dim)] += HashMix(here, IndexColor(index));
      }
      if (node.source != ReadSource::kInput) continue;
      inputs[ref] += here;
      const std::vector<int32_t>& axes = flat_.inputs[ref].dims;
      for (size_t k = 0; k < axes.size(); ++k)
        sizes[static_cast<size_t>(axes[k])] += HashMix(here, 100 + k);
    }
    for (size_t k = 0; k < inputs.size(); ++k) input_[k] = HashMix(input_[k], inputs[k]);
    for (size_t k = 0; k < params.size(); ++k) param_[k] = HashMix(param_[k], params[k]);
    for (size_t k = 0; k < sizes.size(); ++k) size_[k] = HashMix(size_[k], sizes[k]);
  }

  const Flat& flat_;
  std::vector<bool> live_;
  std::vector<uint64_t> below_;  // by node: of what it computes
  std::vector<uint64_t> above_;  // by node: of where it goes
  std::vector<uint64_t> input_, param_, size_;
};

// How operands of commutative ops stand before their hashes are asked, so that texts read like
// formulas: larger expressions, then stages, inputs (of more axes first), coordinates, parameters,
// literals.
std::vector<uint32_t> ReadingOrder(const Flat& flat) {
  constexpr uint32_t kStep = 1u << 16;
  const std::vector<ExprNode>& nodes = flat.graph.nodes();
  std::vector<uint32_t> depth(nodes.size(), 0);
  std::vector<uint32_t> order(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ExprNode& node = nodes[i];
    for (int slot = 0; slot < Info(node.op).arity; ++slot)
      depth[i] = std::max(depth[i], 1 + depth[static_cast<size_t>(node.args[slot])]);
    depth[i] = std::min(depth[i], kStep - 1);
    const auto axes = static_cast<uint32_t>(node.index.size());
    if (depth[i] > 0) {
      order[i] = kStep - depth[i];
    } else if (node.op == ScalarOp::kRead) {
      order[i] = (node.source == ReadSource::kStage ? 1 : 2) * kStep + (64 - axes);
    } else {
      order[i] = (node.op == ScalarOp::kConst ? 5 : node.op == ScalarOp::kParam ? 4 : 3) * kStep;
    }
  }
  return order;
}

// By output: how many inputs it is made of.
std::vector<size_t> InputCounts(const Flat& flat, const std::vector<bool>& live) {
  std::vector<std::set<int32_t>> inputs(live.size());
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    const ExprNode& node = flat.graph.nodes()[i];
    const auto take = [&](ExprId from) {
      if (from < 0) return;
      const std::set<int32_t>& more = inputs[static_cast<size_t>(from)];
      inputs[i].insert(more.begin(), more.end());
    };
    for (const ExprId arg : node.args) take(arg);
    for (const IndexExpr& index : node.index) take(index.load);
    if (node.op != ScalarOp::kRead) continue;
    if (node.source == ReadSource::kInput) inputs[i].insert(node.ref);
    if (node.source == ReadSource::kStage) take(flat.stages[static_cast<size_t>(node.ref)].expr);
  }
  std::vector<size_t> counts;
  for (const FlatOutput& output : flat.outputs)
    counts.push_back(inputs[static_cast<size_t>(output.expr)].size());
  return counts;
}

}  // namespace

Colors Color(const Flat& flat) { return Colorer(flat).Run(); }

Flat Order(const Flat& flat) {
  const Colors colors = Color(flat);
  const std::vector<bool> live = Live(flat);
  const std::vector<uint32_t> reading = ReadingOrder(flat);
  Flat to = flat;
  to.graph = ScalarExpr();
  to.free.clear();
  to.stages.clear();
  std::vector<ExprId> map(live.size(), -1);
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    ExprNode node = flat.graph.nodes()[i];
    const auto rank = [&](ExprId arg) {
      const auto at = static_cast<size_t>(arg);
      return std::tuple(reading[at], colors.node[at], map[at]);
    };
    if (Info(node.op).commutative && rank(node.args[1]) < rank(node.args[0]))
      std::swap(node.args[0], node.args[1]);
    for (ExprId& arg : node.args) {
      if (arg >= 0) arg = map[static_cast<size_t>(arg)];
    }
    for (IndexExpr& index : node.index) {
      if (index.load >= 0) index.load = map[static_cast<size_t>(index.load)];
    }
    if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage) {
      FlatStage stage = flat.stages[static_cast<size_t>(node.ref)];
      stage.expr = map[static_cast<size_t>(stage.expr)];
      node.ref = to.AddStage(stage);
    }
    map[i] = to.Add(std::move(node));
  }
  std::vector<size_t> order(flat.outputs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // The values of an element are stored in this order. What is made of most inputs comes first, so
  // that what is stored later can lie where inputs did that it alone still reads.
  const std::vector<size_t> counts = InputCounts(flat, live);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : colors.output[a] < colors.output[b];
  });
  to.outputs.clear();
  for (const size_t k : order) {
    to.outputs.push_back(flat.outputs[k]);
    to.outputs.back().expr = map[static_cast<size_t>(flat.outputs[k].expr)];
  }
  return to;
}

}  // namespace kiln::canonical_internal
