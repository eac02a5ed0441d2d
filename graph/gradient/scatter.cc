// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient/scatter.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/status_macros.h"

namespace kiln::gradient {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// A loaded coordinate as it is meant: from the end where negative, then clamped to the axis.
// `extent` is that of the axis, [] or [1].
ValueId Counted(Nodes& m, ValueId index, ValueId extent) {
  const DType type = DType::kI64;
  index = m.To(index, type);
  const ValueId zero = m.Number(type, 0);
  const ValueId counted = m.Where(m.Less(index, zero), m.Add(index, extent), index);
  const ValueId last = m.Sub(extent, m.Number(type, 1));
  return m.Op("min", {m.Op("max", {counted, zero}), last});
}

// A loaded coordinate as a column, [..., 1]: scatter_sum counts and clamps as loads do.
ValueId Column(Nodes& m, ValueId index, DType type) {
  return m.To(m.Unsqueeze(index, {static_cast<int64_t>(m.RankOf(index))}), type);
}

// The input axis along which one element is picked for each place of all others, as a loss picks
// that of the target; or nothing.
std::optional<size_t> PicksAlong(const IndexPiece& piece, const Shape& in, const Shape& out) {
  std::optional<size_t> along;
  if (in.size() != out.size() || !piece.bounds.empty()) return std::nullopt;
  for (size_t i = 0; i < piece.axes.size(); ++i) {
    const IndexAxis& axis = piece.axes[i];
    if (axis.load_input >= 0) {
      if (along || !out[i].IsConst(1) || axis.load_axes.size() != out.size() ||
          !std::is_sorted(axis.load_axes.begin(), axis.load_axes.end()))
        return std::nullopt;
      along = i;
    } else if (axis.out_axis != static_cast<int>(i) || !(in[i] == out[i]) ||
               !axis.coef.IsConst(1) || !axis.offset.IsConst(0) || axis.div != 1) {
      return std::nullopt;
    }
  }
  return along;
}

// g where an element was picked, else 0: element-wise.
ValueId Spread(Nodes& m, const IndexPiece& piece, const Ids& inputs, const Shape& in, size_t along,
               ValueId g) {
  const IndexAxis& axis = piece.axes[along];
  const ValueId extent = m.Extent(inputs[At(piece.input)], along, DType::kI64);
  const ValueId picked = Counted(m, inputs[At(axis.load_input)], extent);
  Shape places(in.size(), 1);
  places[along] = in[along];
  return m.Where(m.Equal(m.Iota(places, along), picked), m.Wide(g));
}

}  // namespace

absl::StatusOr<ValueId> ScatterPiece(Nodes& m, const IndexPiece& piece, const Ids& inputs,
                                     const Shape& in, const Shape& out, ValueId g) {
  if (const auto along = PicksAlong(piece, in, out); along)
    return Spread(m, piece, inputs, in, *along, g);
  std::set<int> loaded;  // output axes that are those of the loaded tensors
  for (const IndexAxis& axis : piece.axes)
    loaded.insert(axis.load_axes.begin(), axis.load_axes.end());
  if (!piece.bounds.empty() || *loaded.begin() < 0)
    return absl::UnimplementedError("coordinates loaded in parts");
  Shape places;  // one for each update
  Ints perm(loaded.begin(), loaded.end());
  for (const int64_t axis : perm) places.push_back(out[At(axis)]);

  // Input axes whose coordinate is a column of the indices, then those that are moved whole.
  Ids columns;
  Ints order, whole;
  for (size_t i = 0; i < piece.axes.size(); ++i) {
    const IndexAxis& axis = piece.axes[i];
    const auto in_axis = static_cast<int64_t>(i);
    if (axis.load_input >= 0) {
      const std::vector<int>& axes = axis.load_axes;
      if (!std::equal(axes.begin(), axes.end(), perm.begin(), perm.begin() + loaded.size()))
        return absl::UnimplementedError("coordinates loaded along some axes only");
      columns.push_back(Column(m, inputs[At(axis.load_input)], DType::kI64));
      order.push_back(in_axis);
      continue;
    }
    if (axis.out_axis < 0 || !axis.coef.IsConst(1) || !axis.offset.IsConst(0) || axis.div != 1)
      return absl::UnimplementedError("loaded coordinates beside moved ones");
    if (loaded.count(axis.out_axis) != 0) {
      const auto place =
          static_cast<size_t>(std::distance(loaded.begin(), loaded.find(axis.out_axis)));
      columns.push_back(m.Unsqueeze(m.Iota(places, place), {static_cast<int64_t>(places.size())}));
      order.push_back(in_axis);
    } else {
      whole.push_back(in_axis);
      perm.push_back(axis.out_axis);
    }
  }
  order.insert(order.end(), whole.begin(), whole.end());
  Shape arranged;
  for (const int64_t axis : order) arranged.push_back(in[At(axis)]);
  const ValueId indices =
      columns.size() == 1
          ? columns[0]
          : m.Op("concat", std::move(columns), {{"axis", static_cast<int64_t>(places.size())}});
  const ValueId updates = m.Transpose(m.Wide(g), perm);
  const ValueId sums = m.Op("scatter_sum", {indices, updates}, {{"shape", DimsValue(arranged)}});
  Ints back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[At(order[i])] = static_cast<int64_t>(i);
  return m.Transpose(sums, back);
}

}  // namespace kiln::gradient
