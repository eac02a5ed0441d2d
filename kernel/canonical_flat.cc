// SPDX-License-Identifier: Apache-2.0
#include "kernel/canonical_flat.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/checked.h"

namespace kiln::canonical_internal {
namespace {

// Literals that change what code is generated, and so belong into the text.
bool StaysLiteral(DType type, uint64_t bits) {
  if (type == DType::kBool) return true;
  if (IsFloat(type)) {
    const double value = ConstValue(type, bits);
    return std::isnan(value) || std::isinf(value) || value == 0 || std::fabs(value) == 1;
  }
  return bits <= 1 || (IsSigned(type) && bits == ~uint64_t{0});
}

bool IsSmallExponent(const ExprNode& pow, int slot, const ExprNode& exponent) {
  const double value = ConstValue(exponent.type, exponent.imm);
  return pow.op == ScalarOp::kPow && slot == 1 && (value == 2 || value == 3);
}

// Nodes made of coordinates, extents and literals only.
std::vector<bool> IndexArithmetic(const ScalarExpr& expr) {
  std::vector<bool> pure(expr.nodes().size(), false);
  for (size_t i = 0; i < pure.size(); ++i) {
    const ExprNode& node = expr.nodes()[i];
    pure[i] = node.op != ScalarOp::kRead && node.op != ScalarOp::kParam;
    for (const ExprId arg : node.args) {
      if (arg >= 0 && !pure[static_cast<size_t>(arg)]) pure[i] = false;
    }
  }
  return pure;
}

class Flattener {
 public:
  explicit Flattener(const Kernel& raw) : raw_(raw) {
    for (size_t d = 0; d < raw.dims.size(); ++d) flat_.dims.push_back({static_cast<int32_t>(d)});
    flat_.num_iterated = raw.num_iterated();
    flat_.inputs = raw.inputs;
    for (KernelInput& input : flat_.inputs) input.layout = Normal(input.layout, input.dims.size());
    flat_.params = raw.params;
    for (size_t k = 0; k < raw.params.size(); ++k)
      flat_.param_values.push_back({static_cast<int32_t>(k), 0});
  }

  Flat Run() {
    for (const Stage& stage : raw_.stages) {
      const ExprId expr = Copy(stage.expr);
      DimSet over = 0;
      for (const int32_t dim : stage.over) over |= Bit(dim);
      const bool reduce = stage.kind == Stage::Kind::kReduce;
      values_.push_back(
          {expr, {reduce, reduce ? stage.op : ReduceOp::kAdd, over, Free(expr) & ~over, expr}});
    }
    for (size_t k = 0; k < raw_.outputs.size(); ++k) {
      const KernelOutput& output = raw_.outputs[k];
      flat_.outputs.push_back({static_cast<int32_t>(k), output.type,
                               Normal(output.layout, output.dims.size()), output.dims,
                               Copy(output.expr)});
    }
    return std::move(flat_);
  }

 private:
  struct Value {
    ExprId expr;
    FlatStage stage;
  };

  // With one axis, rows are dense; without any, everything is.
  static Layout Normal(Layout layout, size_t rank) {
    if (rank == 0 || (rank == 1 && layout == Layout::kRows)) return Layout::kDense;
    return layout;
  }

  DimSet Free(ExprId id) const { return flat_.free[static_cast<size_t>(id)]; }

  ExprId Constant(const ExprNode& node, bool keep) {
    if (keep || StaysLiteral(node.type, node.imm)) return flat_.Add(node);
    const auto [at, fresh] =
        literals_.try_emplace({node.type, node.imm}, static_cast<int32_t>(flat_.params.size()));
    if (fresh) {
      flat_.params.push_back(node.type);
      flat_.param_values.push_back({-1, node.imm});
    }
    ExprNode param;
    param.op = ScalarOp::kParam;
    param.type = node.type;
    param.ref = at->second;
    return flat_.Add(std::move(param));
  }

  // Constants are copied where they are used: whether they stay literals depends on the user.
  ExprId Copy(const ScalarExpr& expr) {
    const std::vector<bool> pure = IndexArithmetic(expr);
    std::vector<ExprId> map(expr.nodes().size(), -1);
    const auto mapped = [&](ExprId id, bool keep) {
      const ExprNode& node = expr.node(id);
      return node.op == ScalarOp::kConst ? Constant(node, keep) : map[static_cast<size_t>(id)];
    };
    for (ExprId id = 0; id <= expr.root(); ++id) {
      ExprNode node = expr.node(id);
      if (node.op == ScalarOp::kConst) continue;
      for (int slot = 0; slot < Info(node.op).arity; ++slot) {
        const ExprNode& arg = expr.node(node.args[slot]);
        const bool index = pure[static_cast<size_t>(id)] && arg.type == DType::kI64;
        node.args[slot] =
            mapped(node.args[slot], index || IsSmallExponent(expr.node(id), slot, arg));
      }
      for (IndexExpr& one : node.index) {
        if (one.load >= 0) one.load = mapped(one.load, true);
      }
      const bool stage_read = node.op == ScalarOp::kRead && node.source == ReadSource::kStage;
      map[static_cast<size_t>(id)] =
          stage_read ? ReadStage(std::move(node)) : flat_.Add(std::move(node));
    }
    return mapped(expr.root(), false);
  }

  ExprId ReadStage(ExprNode node) {
    const auto raw = static_cast<size_t>(node.ref);
    const Value& value = values_[raw];
    std::vector<IndexExpr> index;
    bool identity = true;
    for (size_t k = 0; k < node.index.size(); ++k) {
      const int32_t dim = raw_.stages[raw].dims[k];
      if ((value.stage.dims & Bit(dim)) == 0) continue;
      identity = identity && node.index[k].IsDim() && node.index[k].terms[0].dim == dim;
      index.push_back(std::move(node.index[k]));
    }
    if (!value.stage.reduce && identity) return value.expr;
    node.index = std::move(index);
    node.ref = flat_.AddStage(value.stage);
    return flat_.Add(std::move(node));
  }

  const Kernel& raw_;
  Flat flat_;
  std::vector<Value> values_;
  std::map<std::pair<DType, uint64_t>, int32_t> literals_;
};

// Whether `index` names coordinate or extent of dim d.
bool Mentions(const IndexExpr& index, int32_t d) {
  return std::any_of(index.terms.begin(), index.terms.end(),
                     [&](const IndexExpr::Term& t) { return t.dim == d; });
}
bool IsCoordinate(const IndexExpr& index, int32_t d) {
  return index.IsDim() && index.terms[0].dim == d;
}

// Whether an operand with these axes, read at `index`, treats dims d and d + 1 as one dense pair,
// or not at all.
bool ReadsPair(const std::vector<int32_t>& axes, bool dense, const std::vector<IndexExpr>& index,
               int32_t d) {
  for (size_t k = 0; k < axes.size(); ++k) {
    const bool first = axes[k] == d || Mentions(index[k], d);
    const bool second = axes[k] == d + 1 || Mentions(index[k], d + 1);
    if (!first && !second) continue;
    const size_t at = first ? k : k - 1;
    if ((second && k == 0) || (first && second) || at + 1 >= axes.size() || !dense) return false;
    if (axes[at] != d || axes[at + 1] != d + 1 || !IsCoordinate(index[at], d) ||
        !IsCoordinate(index[at + 1], d + 1))
      return false;
  }
  return true;
}

bool StoresPair(const FlatOutput& output, int32_t d) {
  const auto first = std::find(output.dims.begin(), output.dims.end(), d);
  const bool second = std::find(output.dims.begin(), output.dims.end(), d + 1) != output.dims.end();
  if (first == output.dims.end()) return !second;
  return output.layout == Layout::kDense && first + 1 != output.dims.end() && first[1] == d + 1;
}

bool BothOrNeither(DimSet dims, int32_t d) {
  const DimSet pair = dims & (Bit(d) | Bit(d + 1));
  return pair == 0 || pair == (Bit(d) | Bit(d + 1));
}

bool CanMerge(const Flat& flat, const std::vector<bool>& live, int32_t d) {
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    const ExprNode& node = flat.graph.nodes()[i];
    if ((node.op == ScalarOp::kIndex || node.op == ScalarOp::kExtent) &&
        (node.ref == d || node.ref == d + 1))
      return false;
    if (node.op != ScalarOp::kRead) continue;
    const auto ref = static_cast<size_t>(node.ref);
    if (node.source == ReadSource::kInput) {
      const KernelInput& input = flat.inputs[ref];
      if (!ReadsPair(input.dims, input.layout == Layout::kDense, node.index, d)) return false;
    } else {
      const FlatStage& stage = flat.stages[ref];
      if (!BothOrNeither(stage.over, d) || !BothOrNeither(stage.dims, d)) return false;
      if (!ReadsPair(ToList(stage.dims), true, node.index, d)) return false;
    }
  }
  return std::all_of(flat.outputs.begin(), flat.outputs.end(),
                     [&](const FlatOutput& o) { return StoresPair(o, d); });
}

// The dims that live nodes and outputs iterate, and those whose extents count.
std::pair<DimSet, DimSet> UsedDims(const Flat& flat, const std::vector<bool>& live) {
  DimSet iterated = 0;
  DimSet sizes = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    const ExprNode& node = flat.graph.nodes()[i];
    iterated |= flat.free[i];
    if (node.op == ScalarOp::kExtent) sizes |= Bit(node.ref);
    for (const IndexExpr& index : node.index) {
      for (const IndexExpr::Term& term : index.terms) {
        if (term.extent) sizes |= Bit(term.dim);
      }
    }
    if (node.op != ScalarOp::kRead) continue;
    if (node.source == ReadSource::kStage)
      iterated |= flat.stages[static_cast<size_t>(node.ref)].over;
    if (node.source == ReadSource::kInput) {
      for (const int32_t dim : flat.inputs[static_cast<size_t>(node.ref)].dims) sizes |= Bit(dim);
    }
  }
  for (const FlatOutput& output : flat.outputs) {
    for (const int32_t dim : output.dims) (dim < flat.num_iterated ? iterated : sizes) |= Bit(dim);
    // How often something is added depends on all dims.
    if (flat.graph.node(output.expr).op == ScalarOp::kAddAt)
      iterated |= (DimSet{1} << flat.num_iterated) - 1;
  }
  return {iterated, sizes};
}

// Rewrites every place that names a dim. `map` gives the new dim, or -1 for the second of a merged
// pair and for unused ones.
class DimMapper {
 public:
  DimMapper(const Flat& from, std::vector<int32_t> map) : from_(from), map_(std::move(map)) {}

  // Reads of `inputs` have a last axis `axis`, read at the quotient of what it was read at.
  DimMapper& Divide(std::vector<bool> inputs, int32_t axis, int64_t by) {
    divided_ = std::move(inputs);
    axis_ = axis;
    by_ = by;
    return *this;
  }

  Flat Run(std::vector<std::vector<int32_t>> dims, int num_iterated) {
    Flat to;
    to.dims = std::move(dims);
    to.num_iterated = num_iterated;
    to.params = from_.params;
    to.param_values = from_.param_values;
    to.inputs = from_.inputs;
    for (size_t i = 0; i < to.inputs.size(); ++i) {
      to.inputs[i].dims = List(to.inputs[i].dims);
      if (Divided(i)) to.inputs[i].dims.back() = axis_;
    }
    const std::vector<bool> live = Live(from_);
    std::vector<ExprId> node_map(live.size(), -1);
    for (size_t i = 0; i < live.size(); ++i) {
      if (live[i]) node_map[i] = to.Add(Node(from_.graph.nodes()[i], node_map, to));
    }
    for (FlatOutput output : from_.outputs) {
      output.dims = List(output.dims);
      output.expr = node_map[static_cast<size_t>(output.expr)];
      to.outputs.push_back(std::move(output));
    }
    return to;
  }

 private:
  int32_t Map(int32_t dim) const { return map_[static_cast<size_t>(dim)]; }
  std::vector<int32_t> List(const std::vector<int32_t>& dims) const {
    std::vector<int32_t> out;
    for (const int32_t dim : dims) {
      if (Map(dim) >= 0) out.push_back(Map(dim));
    }
    return out;
  }
  DimSet Set(DimSet dims) const {
    DimSet out = 0;
    for (const int32_t dim : List(ToList(dims))) out |= Bit(dim);
    return out;
  }
  ExprNode Node(ExprNode node, const std::vector<ExprId>& node_map, Flat& to) const {
    for (ExprId& arg : node.args) {
      if (arg >= 0) arg = node_map[static_cast<size_t>(arg)];
    }
    if (node.op == ScalarOp::kIndex || node.op == ScalarOp::kExtent) node.ref = Map(node.ref);
    std::vector<IndexExpr> indices;
    for (IndexExpr& index : node.index) {
      if (index.IsDim() && Map(index.terms[0].dim) < 0) continue;  // merged into the axis before it
      if (index.load >= 0) index.load = node_map[static_cast<size_t>(index.load)];
      for (IndexExpr::Term& term : index.terms) term.dim = Map(term.dim);
      // Order among the dims may have changed: an iterated dim can have become a size.
      std::sort(index.terms.begin(), index.terms.end(),
                [](const IndexExpr::Term& a, const IndexExpr::Term& b) {
                  return std::pair(a.extent, a.dim) < std::pair(b.extent, b.dim);
                });
      indices.push_back(std::move(index));
    }
    if (node.op == ScalarOp::kRead && node.source == ReadSource::kInput &&
        Divided(static_cast<size_t>(node.ref)))
      indices.back().div = by_;
    node.index = std::move(indices);
    if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage) {
      FlatStage stage = from_.stages[static_cast<size_t>(node.ref)];
      stage.over = Set(stage.over);
      stage.dims = Set(stage.dims);
      stage.expr = node_map[static_cast<size_t>(stage.expr)];
      node.ref = to.AddStage(stage);
    }
    return node;
  }

  bool Divided(size_t input) const { return input < divided_.size() && divided_[input]; }

  const Flat& from_;
  std::vector<int32_t> map_;
  std::vector<bool> divided_;
  int32_t axis_ = -1;
  int64_t by_ = 1;
};

// The last axis of a read that has dim d alone, of d and d + 1, as such.
bool ReadsFirst(const std::vector<int32_t>& axes, bool dense, const std::vector<IndexExpr>& index,
                int32_t d) {
  if (axes.empty() || !dense || axes.back() != d || !IsCoordinate(index.back(), d)) return false;
  for (size_t k = 0; k + 1 < axes.size(); ++k) {
    if (axes[k] >= d || !IsCoordinate(index[k], axes[k])) return false;
  }
  return true;
}

// Inputs that are only read so, if that is all that keeps dims d and d + 1, which are reduced
// together, from being merged.
std::vector<bool> InputsAlongFirst(const Flat& flat, int32_t d) {
  std::vector<bool> along(flat.inputs.size(), false), other(flat.inputs.size(), false);
  std::vector<bool> live = Live(flat);
  bool reduces = false;
  for (size_t i = 0; i < live.size(); ++i) {
    const ExprNode& node = flat.graph.nodes()[i];
    if (!live[i] || node.op != ScalarOp::kRead) continue;
    const auto ref = static_cast<size_t>(node.ref);
    if (node.source == ReadSource::kStage) {
      const FlatStage& stage = flat.stages[ref];
      const DimSet pair = Bit(d) | Bit(d + 1);
      reduces = reduces || (stage.reduce && (stage.over & pair) == pair);
      continue;
    }
    const KernelInput& input = flat.inputs[ref];
    const bool first = ReadsFirst(input.dims, input.layout == Layout::kDense, node.index, d);
    (first ? along : other)[ref] = true;
    if (first) live[i] = false;
  }
  for (size_t i = 0; i < along.size(); ++i)
    if (along[i] && other[i]) return {};
  if (!reduces || !CanMerge(flat, live, d)) return {};
  return along;
}

}  // namespace

std::vector<int32_t> ToList(DimSet dims) {
  std::vector<int32_t> list;
  for (; dims != 0; dims &= dims - 1) list.push_back(std::countr_zero(dims));
  return list;
}

ExprId Flat::Add(ExprNode node) {
  DimSet dims = node.op == ScalarOp::kIndex ? Bit(node.ref) : 0;
  for (const ExprId arg : node.args) {
    if (arg >= 0) dims |= free[static_cast<size_t>(arg)];
  }
  for (const IndexExpr& index : node.index) {
    if (index.load >= 0) dims |= free[static_cast<size_t>(index.load)];
    for (const IndexExpr::Term& term : index.terms) {
      if (!term.extent) dims |= Bit(term.dim);
    }
  }
  const ExprId id = graph.Add(std::move(node));
  if (static_cast<size_t>(id) == free.size()) free.push_back(dims);
  return id;
}

int32_t Flat::AddStage(const FlatStage& stage) {
  const auto at = std::find(stages.begin(), stages.end(), stage);
  if (at != stages.end()) return static_cast<int32_t>(at - stages.begin());
  stages.push_back(stage);
  return static_cast<int32_t>(stages.size()) - 1;
}

std::vector<bool> Live(const Flat& flat) {
  std::vector<bool> live(flat.graph.nodes().size(), false);
  for (const FlatOutput& output : flat.outputs) live[static_cast<size_t>(output.expr)] = true;
  for (size_t i = live.size(); i-- > 0;) {
    if (!live[i]) continue;
    const ExprNode& node = flat.graph.nodes()[i];
    for (const ExprId arg : node.args) {
      if (arg >= 0) live[static_cast<size_t>(arg)] = true;
    }
    for (const IndexExpr& index : node.index) {
      if (index.load >= 0) live[static_cast<size_t>(index.load)] = true;
    }
    if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage) {
      live[static_cast<size_t>(flat.stages[static_cast<size_t>(node.ref)].expr)] = true;
    }
  }
  return live;
}

Flat Flatten(const Kernel& raw) { return Flattener(raw).Run(); }

Flat MergeDims(const Flat& flat) {
  // Unused dims go first: they would stand between neighbours.
  const auto [iterated, sizes] = UsedDims(flat, Live(flat));
  std::vector<int32_t> map(flat.dims.size(), -1);
  std::vector<std::vector<int32_t>> dims;
  for (const int32_t dim : ToList(iterated)) {
    map[static_cast<size_t>(dim)] = static_cast<int32_t>(dims.size());
    dims.push_back(flat.dims[static_cast<size_t>(dim)]);
  }
  const int count = static_cast<int>(dims.size());
  for (const int32_t dim : ToList(sizes & ~iterated)) {
    map[static_cast<size_t>(dim)] = static_cast<int32_t>(dims.size());
    dims.push_back(flat.dims[static_cast<size_t>(dim)]);
  }
  const Flat used = DimMapper(flat, map).Run(std::move(dims), count);

  const std::vector<bool> live = Live(used);
  map.assign(used.dims.size(), -1);
  dims.clear();
  int merged_count = 0;
  for (int32_t d = 0; d < static_cast<int32_t>(used.dims.size()); ++d) {
    const bool merge = d > 0 && d < used.num_iterated && CanMerge(used, live, d - 1);
    if (merge) {
      dims.back().insert(dims.back().end(), used.dims[static_cast<size_t>(d)].begin(),
                         used.dims[static_cast<size_t>(d)].end());
      continue;
    }
    map[static_cast<size_t>(d)] = static_cast<int32_t>(dims.size());
    dims.push_back(used.dims[static_cast<size_t>(d)]);
    if (d < used.num_iterated) ++merged_count;
  }
  return DimMapper(used, map).Run(std::move(dims), merged_count);
}

Flat DivideDims(const Flat& flat, std::span<const int64_t> raw_extents) {
  const int32_t last = flat.num_iterated - 1, first = last - 1;
  if (first < 1) return flat;
  int64_t row = 1;  // elements of the innermost dim; 0: not known, or too many for an index
  for (const int32_t raw : flat.dims[static_cast<size_t>(last)]) {
    const auto at = static_cast<size_t>(raw);
    const std::optional<int64_t> product =
        CheckedMul(row, at < raw_extents.size() ? raw_extents[at] : 0);
    row = product && *product <= INT32_MAX ? *product : 0;
  }
  if (row < 2) return flat;
  const std::vector<bool> along = InputsAlongFirst(flat, first);
  if (std::find(along.begin(), along.end(), true) == along.end()) return flat;
  std::vector<int32_t> map;
  std::vector<std::vector<int32_t>> dims;
  for (int32_t dim = 0; dim < static_cast<int32_t>(flat.dims.size()); ++dim) {
    map.push_back(dim == last ? -1 : static_cast<int32_t>(dims.size()));
    const std::vector<int32_t>& raw = flat.dims[static_cast<size_t>(dim)];
    if (dim == last) {
      dims.back().insert(dims.back().end(), raw.begin(), raw.end());
    } else {
      dims.push_back(raw);
    }
  }
  dims.push_back(flat.dims[static_cast<size_t>(first)]);
  const auto axis = static_cast<int32_t>(dims.size()) - 1;
  return DimMapper(flat, map).Divide(along, axis, row).Run(std::move(dims), last);
}

}  // namespace kiln::canonical_internal
