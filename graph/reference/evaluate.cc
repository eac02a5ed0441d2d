// SPDX-License-Identifier: Apache-2.0
#include "graph/reference/evaluate.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/coordinate.h"
#include "graph/reference/scalar.h"
#include "graph/tensors.h"

namespace kiln::reference {
namespace {

const Element* Elements(const Tensor& wide) { return static_cast<const Element*>(wide.data()); }
Element* Elements(Tensor& wide) { return static_cast<Element*>(wide.data()); }

// Walks over the places of `extents`, row-major, and keeps for each of several tensors the offset
// there.
class Walk {
 public:
  Walk(std::vector<int64_t> extents, std::vector<std::vector<int64_t>> strides)
      : extents_(std::move(extents)),
        strides_(std::move(strides)),
        at_(extents_.size(), 0),
        offsets_(strides_.size(), 0) {}

  const std::vector<int64_t>& at() const { return at_; }
  int64_t offset(size_t tensor) const { return offsets_[tensor]; }
  void Step() {
    for (size_t i = extents_.size(); i-- > 0;) {
      const bool wraps = ++at_[i] == extents_[i];
      const int64_t moved = wraps ? 1 - extents_[i] : 1;
      for (size_t t = 0; t < offsets_.size(); ++t) offsets_[t] += moved * strides_[t][i];
      if (!wraps) return;
      at_[i] = 0;
    }
  }

 private:
  std::vector<int64_t> extents_;
  std::vector<std::vector<int64_t>> strides_;
  std::vector<int64_t> at_;
  std::vector<int64_t> offsets_;
};

// Strides of `shape` under places of rank `rank`: 0 along axes that are broadcast.
std::vector<int64_t> BroadcastStrides(const std::vector<int64_t>& shape, size_t rank) {
  const std::vector<int64_t> dense = DenseStrides(shape);
  std::vector<int64_t> strides(rank, 0);
  const size_t skip = rank - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) strides[skip + i] = shape[i] == 1 ? 0 : dense[i];
  return strides;
}

// A body of one step: `make` gets reads of inputs 0 and 1 of `type`.
template <typename Make>
ScalarExpr BodyOf(DType type, Make&& make) {
  ScalarExpr expr;
  const Ex a = Read(expr, type, ReadSource::kInput, 0, {});
  const Ex b = Read(expr, type, ReadSource::kInput, 1, {});
  expr.set_root(make(a, b).id);
  return expr;
}

// One axis of a piece, as numbers.
struct Axis {
  int out_axis;
  int64_t coef, offset, div, extent, stride;
  int load_input;
  std::vector<int64_t> load_strides;  // under the output's places
};
struct Piece {
  const Element* from;  // null: the coordinate of the only axis
  std::vector<Axis> axes;
  struct Bound {
    size_t out_axis;
    int64_t lower, upper;
  };
  std::vector<Bound> bounds;
};

absl::StatusOr<Piece> NumericPiece(const IndexPiece& piece, const SymbolValues& symbols,
                                   const std::vector<Tensor>& inputs, size_t rank) {
  const bool reads = piece.input != kCoordinate;
  const Tensor from = reads ? inputs[static_cast<size_t>(piece.input)] : Tensor();
  const std::vector<int64_t> strides = DenseStrides(from.shape());
  Piece out;
  out.from = reads ? Elements(from) : nullptr;
  for (size_t i = 0; i < piece.axes.size(); ++i) {
    const IndexAxis& axis = piece.axes[i];
    Axis& a = out.axes.emplace_back();
    KILN_ASSIGN_OR_RETURN(a.coef, axis.coef.Evaluate(symbols));
    KILN_ASSIGN_OR_RETURN(a.offset, axis.offset.Evaluate(symbols));
    a.out_axis = axis.out_axis;
    a.div = axis.div;
    a.extent = reads ? from.shape()[i] : 0;
    a.stride = reads ? strides[i] : 0;
    a.load_input = axis.load_input;
    if (axis.load_input < 0) continue;
    const std::vector<int64_t> load =
        DenseStrides(inputs[static_cast<size_t>(axis.load_input)].shape());
    a.load_strides.assign(rank, 0);
    for (size_t k = 0; k < axis.load_axes.size(); ++k) {
      if (axis.load_axes[k] >= 0) a.load_strides[static_cast<size_t>(axis.load_axes[k])] += load[k];
    }
  }
  for (const IndexPiece::Bound& bound : piece.bounds) {
    Piece::Bound& b = out.bounds.emplace_back();
    b.out_axis = static_cast<size_t>(bound.out_axis);
    KILN_ASSIGN_OR_RETURN(b.lower, bound.lower.Evaluate(symbols));
    KILN_ASSIGN_OR_RETURN(b.upper, bound.upper.Evaluate(symbols));
  }
  return out;
}

bool Holds(const Piece& piece, const std::vector<int64_t>& at) {
  return std::all_of(piece.bounds.begin(), piece.bounds.end(), [&](const Piece::Bound& bound) {
    return at[bound.out_axis] >= bound.lower && at[bound.out_axis] < bound.upper;
  });
}

// Whether the pieces lie one after another along one axis, as those of a concatenation do.
bool OneAfterAnother(const std::vector<Piece>& pieces) {
  for (size_t k = 0; k < pieces.size(); ++k) {
    if (pieces[k].bounds.size() != 1) return false;
    const Piece::Bound& bound = pieces[k].bounds[0];
    const Piece::Bound& before = pieces[k == 0 ? 0 : k - 1].bounds[0];
    if (bound.out_axis != before.out_axis || (k > 0 && bound.lower < before.upper)) return false;
  }
  return !pieces.empty();
}

// The first piece that holds at a place, or pieces.end().
std::vector<Piece>::const_iterator PieceAt(const std::vector<Piece>& pieces, bool one_after_another,
                                           const std::vector<int64_t>& at) {
  auto begin = pieces.begin();
  if (one_after_another) {
    begin = std::partition_point(begin, pieces.end(), [&](const Piece& piece) {
      return piece.bounds[0].upper <= at[piece.bounds[0].out_axis];
    });
    return begin != pieces.end() && Holds(*begin, at) ? begin : pieces.end();
  }
  return std::find_if(begin, pieces.end(), [&](const Piece& piece) { return Holds(piece, at); });
}

int64_t Coordinate(const Axis& axis, const std::vector<int64_t>& at,
                   const std::vector<Tensor>& inputs) {
  if (axis.load_input >= 0) {
    int64_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i) offset += at[i] * axis.load_strides[i];
    if (axis.extent == 0) return -1;  // nothing to clamp to
    const int64_t loaded = Elements(inputs[static_cast<size_t>(axis.load_input)])[offset].i;
    return std::clamp<int64_t>(loaded < 0 ? loaded + axis.extent : loaded, 0, axis.extent - 1);
  }
  const int64_t place =
      axis.offset + (axis.out_axis < 0 ? 0 : axis.coef * at[static_cast<size_t>(axis.out_axis)]);
  return place / axis.div - (place % axis.div < 0 ? 1 : 0);
}

}  // namespace

Tensor Widen(const Tensor& tensor) {
  const Tensor dense = Dense(tensor);
  const bool is_float = IsFloat(tensor.dtype());
  Tensor wide = Tensor::Allocate(is_float ? DType::kF64 : DType::kI64, tensor.shape());
  const int64_t n = dense.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (is_float) {
      Elements(wide)[i].f = ReadFloat(dense, i);
    } else {
      Elements(wide)[i].i = ReadInt(dense, i);
    }
  }
  return wide;
}

Tensor ToDeclared(const Tensor& wide, DType type) {
  Tensor out = Tensor::Allocate(type, wide.shape());
  const int64_t n = wide.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (IsFloat(type)) {
      WriteFloat(out, i, Elements(wide)[i].f);
    } else {
      WriteInt(out, i, Elements(wide)[i].i);
    }
  }
  return out;
}

void Map(const ScalarExpr& body, const std::vector<Tensor>& inputs, Tensor& out) {
  std::vector<std::vector<int64_t>> strides;
  std::vector<const Element*> from;
  for (const Tensor& input : inputs) {
    const bool absent = input.data() == nullptr;
    strides.push_back(absent ? std::vector<int64_t>(out.shape().size(), 0)
                             : BroadcastStrides(input.shape(), out.shape().size()));
    from.push_back(Elements(input));
  }
  Walk walk(out.shape(), std::move(strides));
  std::vector<Element> elements(inputs.size());
  std::vector<Element> scratch(body.nodes().size());
  const int64_t n = out.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < elements.size(); ++k) {
      if (from[k] != nullptr) elements[k] = from[k][walk.offset(k)];
    }
    Elements(out)[i] = EvaluateScalar(body, elements, scratch);
    walk.Step();
  }
}

void Reduce(const ReduceRule& rule, DType type, const Tensor& x, const std::vector<int>& axes,
            Tensor& out) {
  // Strides of the output under the input's places: 0 along reduced axes.
  std::vector<int64_t> strides(x.shape().size(), 0);
  int64_t step = 1;
  int64_t count = 1;
  for (size_t i = x.shape().size(); i-- > 0;) {
    if (std::binary_search(axes.begin(), axes.end(), static_cast<int>(i))) {
      count *= x.shape()[i];
    } else {
      strides[i] = step;
      step *= x.shape()[i];
    }
  }
  const ScalarExpr before =
      BodyOf(type, [&](Ex a, Ex) { return rule.before != nullptr ? rule.before(a) : a; });
  const ScalarExpr after =
      BodyOf(type, [&](Ex a, Ex b) { return rule.after != nullptr ? rule.after(a, b) : a; });
  const bool wide_sum = IsFloat(type) && rule.op == ReduceOp::kAdd;
  const auto results = static_cast<size_t>(out.num_elements());
  std::vector<long double> sums(wide_sum ? results : 0, 0.0L);
  std::vector<Element> accs(wide_sum ? 0 : results, IdentityOf(rule.op, type));
  std::vector<Element> scratch(std::max(before.nodes().size(), after.nodes().size()));

  Walk walk(x.shape(), {strides});
  const int64_t n = x.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    const Element inputs[] = {Elements(x)[i], {}};
    const Element element =
        rule.before != nullptr ? EvaluateScalar(before, inputs, scratch) : inputs[0];
    const auto at = static_cast<size_t>(walk.offset(0));
    if (wide_sum) {
      sums[at] += element.f;
    } else {
      accs[at] = Combine(rule.op, type, accs[at], element);
    }
    walk.Step();
  }
  for (size_t i = 0; i < results; ++i) {
    Element inputs[2];
    if (wide_sum) {
      inputs[0].f = static_cast<double>(sums[i]);
    } else {
      inputs[0] = accs[i];
    }
    if (IsFloat(type)) {
      inputs[1].f = static_cast<double>(count);
    } else {
      inputs[1].i = Wrap(type, count);
    }
    Elements(out)[i] = EvaluateScalar(after, inputs, scratch);
  }
}

absl::Status Move(const IndexMap& map, const SymbolValues& symbols,
                  const std::vector<Tensor>& inputs, DType type, Tensor& out) {
  std::vector<Piece> pieces;
  for (const IndexPiece& piece : map.pieces) {
    KILN_ASSIGN_OR_RETURN(pieces.emplace_back(),
                          NumericPiece(piece, symbols, inputs, out.shape().size()));
  }
  Element fill;
  if (IsFloat(type)) {
    fill.f = ConstValue(ComputeType(type), map.fill);
  } else {
    fill.i = static_cast<int64_t>(map.fill);
  }
  Walk walk(out.shape(), {});
  const int64_t n = out.num_elements();
  const bool one_after_another = OneAfterAnother(pieces);
  for (int64_t i = 0; i < n; ++i, walk.Step()) {
    const auto piece = PieceAt(pieces, one_after_another, walk.at());
    if (piece == pieces.end()) {
      Elements(out)[i] = fill;
      continue;
    }
    if (piece->from == nullptr) {
      Elements(out)[i].i = Coordinate(piece->axes[0], walk.at(), inputs);
      continue;
    }
    int64_t offset = 0;
    for (const Axis& axis : piece->axes) {
      const int64_t place = Coordinate(axis, walk.at(), inputs);
      if (place < 0 || place >= axis.extent) {
        return absl::InternalError(
            absl::StrCat("index ", place, " is outside an axis of ", axis.extent));
      }
      offset += place * axis.stride;
    }
    Elements(out)[i] = piece->from[offset];
  }
  return absl::OkStatus();
}

void RoundAll(Tensor& wide, DType type) {
  const int64_t n = wide.num_elements();
  for (int64_t i = 0; i < n; ++i) Elements(wide)[i].f = RoundTo(Elements(wide)[i].f, type);
}

void WrapAll(Tensor& wide, DType type) {
  if (IsFloat(type)) return;
  const int64_t n = wide.num_elements();
  for (int64_t i = 0; i < n; ++i) Elements(wide)[i].i = Wrap(type, Elements(wide)[i].i);
}

}  // namespace kiln::reference
