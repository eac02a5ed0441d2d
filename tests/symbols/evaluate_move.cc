// SPDX-License-Identifier: Apache-2.0
// Operators whose elements are elements of an input at another place, or a fill value.
#include <algorithm>
#include <numeric>

#include "tests/onnx/model_writer.h"
#include "tests/symbols/evaluate_parts.h"

namespace kiln::symbols {
namespace {

Evaluated Gather(const ModelNode& node, const Inputs& in) {
  const Array &data = *in[0], &index = *in[1];
  int64_t axis = Attr(node, "axis", 0);
  if (!NormalAxis(axis, data.shape.size())) return Wrong("axis");
  const auto a = static_cast<size_t>(axis);
  Ints shape(data.shape.begin(), data.shape.begin() + axis);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), data.shape.begin() + axis + 1, data.shape.end());
  if (IsBad(shape)) return Bad(shape);
  return One(Filled(data.type, shape, [&](const Ints& at) -> long double {
    Ints from(at.begin(), at.begin() + axis);
    const Ints in_index(at.begin() + axis,
                        at.begin() + axis + static_cast<int64_t>(index.shape.size()));
    // Outside of the axis the specification has no element; docs/numerics.md has one.
    if (data.shape[a] == 0) return 0.0L;
    const int64_t i = Int(ElementAt(index, in_index));
    from.push_back(std::clamp<int64_t>(i < 0 ? i + data.shape[a] : i, 0, data.shape[a] - 1));
    from.insert(from.end(), at.begin() + axis + static_cast<int64_t>(index.shape.size()), at.end());
    return ElementAt(data, from);
  }));
}

Evaluated Concat(const ModelNode& node, const Inputs& in) {
  int64_t axis = Attr(node, "axis", 0);
  if (!NormalAxis(axis, in[0]->shape.size())) return Wrong("axis");
  const auto a = static_cast<size_t>(axis);
  Ints shape = in[0]->shape;
  shape[a] = 0;
  for (const Array* x : in) {
    if (x->shape.size() != shape.size()) return Wrong("ranks");
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i != a && x->shape[i] != shape[i]) return Wrong("extents differ");
    }
    shape[a] += x->shape[a];
  }
  return One(Filled(in[0]->type, shape, [&](const Ints& at) {
    Ints from = at;
    size_t k = 0;
    while (from[a] >= in[k]->shape[a]) from[a] -= in[k++]->shape[a];
    return ElementAt(*in[k], from);
  }));
}

// The places of one axis that a slice takes, by stepping.
Ints Taken(int64_t start, int64_t end, int64_t step, int64_t extent) {
  using Wide = __int128;
  Wide s = start, e = end;
  if (s < 0) s += extent;
  if (e < 0) e += extent;
  const Wide low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
  s = std::clamp<Wide>(s, step > 0 ? 0 : std::min<Wide>(0, high), high);
  e = std::clamp<Wide>(e, low, step > 0 ? Wide(extent) : high);
  Ints taken;
  for (Wide at = s; step > 0 ? at < e : at > e; at += step) {
    if (at < 0 || at >= extent) break;
    taken.push_back(static_cast<int64_t>(at));
  }
  return taken;
}

Evaluated Slice(const Inputs& in) {
  const Array& x = *in[0];
  const Ints starts = IntsOf(*in[1]), ends = IntsOf(*in[2]);
  Ints axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (in.size() > 3 && in[3] != nullptr) axes = IntsOf(*in[3]);
  if (in.size() > 4 && in[4] != nullptr) steps = IntsOf(*in[4]);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return Wrong("counts");
  std::vector<Ints> taken;
  for (const int64_t extent : x.shape) {
    taken.emplace_back(static_cast<size_t>(extent));
    std::iota(taken.back().begin(), taken.back().end(), 0);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!NormalAxis(axes[i], x.shape.size())) return Wrong("axis");
    if (steps[i] == 0) return Wrong("step 0");
    const auto a = static_cast<size_t>(axes[i]);
    taken[a] = Taken(starts[i], ends[i], steps[i], x.shape[a]);
  }
  Ints shape;
  for (const Ints& t : taken) shape.push_back(static_cast<int64_t>(t.size()));
  return One(Filled(x.type, shape, [&](const Ints& at) {
    Ints from;
    for (size_t i = 0; i < at.size(); ++i) from.push_back(taken[i][static_cast<size_t>(at[i])]);
    return ElementAt(x, from);
  }));
}

Evaluated Pad(const Inputs& in) {
  const Array& x = *in[0];
  const Ints pads = IntsOf(*in[1]);
  const size_t rank = x.shape.size();
  if (pads.size() != 2 * rank) return Wrong("counts");
  Ints shape;
  for (size_t i = 0; i < rank; ++i) shape.push_back(x.shape[i] + pads[i] + pads[rank + i]);
  for (const int64_t extent : shape) {
    if (extent < 0) return Wrong("negative extent");
  }
  if (IsBad(shape)) return Bad(shape);
  const long double fill = in.size() > 2 && in[2] != nullptr ? in[2]->elements[0] : 0;
  return One(Filled(x.type, shape, [&](const Ints& at) {
    Ints from = at;
    for (size_t i = 0; i < rank; ++i) {
      from[i] -= pads[i];
      if (from[i] < 0 || from[i] >= x.shape[i]) return fill;
    }
    return ElementAt(x, from);
  }));
}

Evaluated Reshape(const ModelNode& node, const Inputs& in) {
  Ints shape = IntsOf(*in[1]);
  int64_t known = 1;
  int64_t open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && Attr(node, "allowzero", 0) == 0) {
      if (i >= in[0]->shape.size()) return Wrong("0 behind the rank");
      shape[i] = in[0]->shape[i];
    }
    if (shape[i] == -1) {
      if (open >= 0) return Wrong("-1 twice");
      open = static_cast<int64_t>(i);
    } else if (shape[i] < 0) {
      return Wrong("negative extent");
    } else if (__builtin_mul_overflow(known, shape[i], &known)) {
      return Wrong("too large");
    }
  }
  const int64_t total = CountOf(in[0]->shape);
  if (open >= 0) {
    if (known == 0) return Undefined("-1 beside an extent of 0");
    if (total % known != 0) return Wrong("does not divide");
    shape[static_cast<size_t>(open)] = total / known;
  } else if (known != total) {
    return Wrong("other number of elements");
  }
  return One({in[0]->type, shape, in[0]->elements});
}

Evaluated Tile(const Inputs& in) {
  const Ints repeats = IntsOf(*in[1]);
  Ints shape = in[0]->shape;
  if (repeats.size() != shape.size()) return Wrong("counts");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] < 0) return Wrong("negative repeats");
    if (repeats[i] > kMost) return TooLarge();
    shape[i] *= repeats[i];
  }
  if (IsBad(shape)) return Bad(shape);
  return One(Filled(in[0]->type, shape, [&](const Ints& at) {
    Ints from = at;
    for (size_t i = 0; i < at.size(); ++i) from[i] %= in[0]->shape[i];
    return ElementAt(*in[0], from);
  }));
}

Evaluated Expand(const Inputs& in) {
  Ints shape;
  const Ints target = IntsOf(*in[1]);
  for (const int64_t extent : target) {
    if (extent == -1) return Undefined("an extent of -1");
    if (extent < 0) return Wrong("negative extent");
  }
  if (!BroadcastShape(in[0]->shape, target, shape)) return Wrong("does not broadcast");
  if (IsBad(shape)) return Bad(shape);
  return One(Filled(in[0]->type, shape, [&](const Ints& at) { return BroadcastAt(*in[0], at); }));
}

Evaluated Transpose(const ModelNode& node, const Inputs& in) {
  const Ints& perm = node.attrs.at("perm");
  Ints shape;
  for (const int64_t axis : perm) shape.push_back(in[0]->shape[static_cast<size_t>(axis)]);
  return One(Filled(in[0]->type, shape, [&](const Ints& at) {
    Ints from(at.size());
    for (size_t i = 0; i < at.size(); ++i) from[static_cast<size_t>(perm[i])] = at[i];
    return ElementAt(*in[0], from);
  }));
}

Evaluated Squeeze(const Inputs& in) {
  const Ints& from = in[0]->shape;
  std::vector<bool> dropped(from.size(), false);
  if (in.size() > 1) {
    for (int64_t axis : IntsOf(*in[1])) {
      if (!NormalAxis(axis, from.size())) return Wrong("axis");
      if (from[static_cast<size_t>(axis)] != 1) return Wrong("extent is not 1");
      dropped[static_cast<size_t>(axis)] = true;
    }
  } else {
    for (size_t i = 0; i < from.size(); ++i) dropped[i] = from[i] == 1;
  }
  Ints shape;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!dropped[i]) shape.push_back(from[i]);
  }
  return One({in[0]->type, shape, in[0]->elements});
}

Evaluated Unsqueeze(const Inputs& in) {
  const Ints axes = IntsOf(*in[1]);
  const size_t rank = in[0]->shape.size() + axes.size();
  std::vector<bool> added(rank, false);
  for (int64_t axis : axes) {
    if (!NormalAxis(axis, rank)) return Wrong("axis");
    added[static_cast<size_t>(axis)] = true;
  }
  Ints shape;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) shape.push_back(added[i] ? 1 : in[0]->shape[next++]);
  return One({in[0]->type, shape, in[0]->elements});
}

Evaluated Flatten(const ModelNode& node, const Inputs& in) {
  int64_t axis = Attr(node, "axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(in[0]->shape.size());
  Ints shape = {1, 1};
  for (size_t i = 0; i < in[0]->shape.size(); ++i)
    shape[static_cast<int64_t>(i) < axis ? 0 : 1] *= in[0]->shape[i];
  return One({in[0]->type, shape, in[0]->elements});
}

Evaluated Split(const ModelNode& node, const Inputs& in) {
  int64_t axis = Attr(node, "axis", 0);
  if (!NormalAxis(axis, in[0]->shape.size())) return Wrong("axis");
  const auto a = static_cast<size_t>(axis);
  const int64_t extent = in[0]->shape[a];
  const auto parts = static_cast<int64_t>(node.outputs.size());
  Ints sizes;
  if (in.size() > 1 && in[1] != nullptr) {
    sizes = IntsOf(*in[1]);
    if (sizes.size() != node.outputs.size()) return Wrong("counts");
  } else {
    const int64_t chunk = (extent + parts - 1) / parts;
    sizes.assign(node.outputs.size(), chunk);
    sizes.back() = extent - chunk * (parts - 1);
    if (sizes.back() < 0) return Undefined("more parts than elements");
  }
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    if (size < 0) return Wrong("negative size");
    sum += size;
  }
  if (sum != extent) return Wrong("sizes do not add up");
  Evaluated out;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    Ints shape = in[0]->shape;
    shape[a] = size;
    out.arrays.push_back(Filled(in[0]->type, shape, [&](const Ints& at) {
      Ints from = at;
      from[a] += first;
      return ElementAt(*in[0], from);
    }));
    first += size;
  }
  return out;
}

// The slices of an axis, or the elements in a row, for which a mask of at most as many holds.
Evaluated Compress(const ModelNode& node, const Inputs& in) {
  const Array &data = *in[0], &mask = *in[1];
  int64_t axis = Attr(node, "axis", 0);
  Ints shape = data.shape;
  if (node.attrs.count("axis") == 0) shape = {CountOf(data.shape)};
  if (!NormalAxis(axis, shape.size())) return Wrong("axis");
  const auto a = static_cast<size_t>(axis);
  Ints taken;
  for (size_t i = 0; i < mask.elements.size(); ++i) {
    if (mask.elements[i] == 0) continue;
    if (static_cast<int64_t>(i) >= shape[a]) return Wrong("the mask chooses beyond the axis");
    taken.push_back(static_cast<int64_t>(i));
  }
  const Array flat{data.type, shape, data.elements};
  shape[a] = static_cast<int64_t>(taken.size());
  return One(Filled(data.type, shape, [&](const Ints& at) {
    Ints from = at;
    from[a] = taken[static_cast<size_t>(at[a])];
    return ElementAt(flat, from);
  }));
}

// A column of coordinates for each element that is not zero.
Evaluated NonZero(const Inputs& in) {
  std::vector<Ints> found;
  Ints at(in[0]->shape.size(), 0);
  if (CountOf(in[0]->shape) > 0) {
    do {
      if (ElementAt(*in[0], at) != 0) found.push_back(at);
    } while (Next(at, in[0]->shape));
  }
  const auto rank = static_cast<int64_t>(at.size());
  return One(Filled(kInt64, {rank, static_cast<int64_t>(found.size())}, [&](const Ints& to) {
    return static_cast<long double>(found[static_cast<size_t>(to[1])][static_cast<size_t>(to[0])]);
  }));
}

}  // namespace

std::optional<Evaluated> EvaluateMove(const ModelNode& node, const Inputs& in) {
  const std::string& op = node.op;
  if (op == "Gather") return Gather(node, in);
  if (op == "Concat") return Concat(node, in);
  if (op == "Slice") return Slice(in);
  if (op == "Pad") return Pad(in);
  if (op == "Reshape") return Reshape(node, in);
  if (op == "Tile") return Tile(in);
  if (op == "Expand") return Expand(in);
  if (op == "Transpose") return Transpose(node, in);
  if (op == "Squeeze") return Squeeze(in);
  if (op == "Unsqueeze") return Unsqueeze(in);
  if (op == "Flatten") return Flatten(node, in);
  if (op == "Split") return Split(node, in);
  if (op == "Compress") return Compress(node, in);
  if (op == "NonZero") return NonZero(in);
  return std::nullopt;
}

}  // namespace kiln::symbols
