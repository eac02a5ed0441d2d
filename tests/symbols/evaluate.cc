// SPDX-License-Identifier: Apache-2.0
#include "tests/symbols/evaluate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/onnx/model_writer.h"

namespace kiln::symbols {
namespace {

using Inputs = std::vector<const Array*>;
constexpr int64_t kMost = 200'000;  // elements

Evaluated Wrong(std::string why) { return {Outcome::kError, std::move(why), {}}; }
Evaluated Undefined(std::string why) { return {Outcome::kUndefined, std::move(why), {}}; }
Evaluated One(Array array) { return {Outcome::kValue, "", {std::move(array)}}; }

int64_t Int(long double value) { return static_cast<int64_t>(value); }

Ints IntsOf(const Array& array) {
  Ints out;
  for (const long double element : array.elements) out.push_back(Int(element));
  return out;
}

int64_t Attr(const ModelNode& node, const std::string& name, int64_t otherwise) {
  const auto found = node.attrs.find(name);
  return found == node.attrs.end() ? otherwise : found->second[0];
}

// The next coordinate in row-major order; false behind the last.
bool Next(Ints& at, const Ints& shape) {
  for (size_t i = shape.size(); i-- > 0;) {
    if (++at[i] < shape[i]) return true;
    at[i] = 0;
  }
  return false;
}

int64_t Flat(const Ints& at, const Ints& shape) {
  int64_t flat = 0;
  for (size_t i = 0; i < shape.size(); ++i) flat = flat * shape[i] + at[i];
  return flat;
}

// An array whose element at each coordinate f gives.
Array Filled(int type, Ints shape, const std::function<long double(const Ints&)>& f) {
  Array out{type, std::move(shape), {}};
  if (CountOf(out.shape) == 0) return out;
  Ints at(out.shape.size(), 0);
  do {
    out.elements.push_back(f(at));
  } while (Next(at, out.shape));
  return out;
}

bool IsBad(const Ints& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || extent > kMost) return true;
    count *= std::max<int64_t>(extent, 1);
    if (count > kMost) return true;
  }
  return false;
}

long double ElementAt(const Array& array, const Ints& at) {
  return array.elements[static_cast<size_t>(Flat(at, array.shape))];
}

// The element that broadcasting puts at `at`.
long double BroadcastAt(const Array& array, const Ints& at) {
  Ints own;
  const size_t skip = at.size() - array.shape.size();
  for (size_t i = 0; i < array.shape.size(); ++i)
    own.push_back(array.shape[i] == 1 ? 0 : at[skip + i]);
  return ElementAt(array, own);
}

bool BroadcastShape(const Ints& a, const Ints& b, Ints& out) {
  out.assign(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

int64_t Wrapped(__int128 value, int type) {
  if (type == kInt32) return static_cast<int32_t>(value);
  return static_cast<int64_t>(value);
}

// Integers divided by zero are what docs/numerics.md says: 0, with a remainder of 0.
long double Arithmetic(const std::string& op, int type, long double x, long double y) {
  long double out = 0;
  if (op == "Equal") out = x == y;
  if (op == "Less") out = x < y;
  if (op == "Greater") out = x > y;
  if (op == "Min") out = std::min(x, y);
  if (op == "Max") out = std::max(x, y);
  if (op != "Add" && op != "Sub" && op != "Mul" && op != "Div" && op != "Mod") return out;
  if (type == kFloat) {
    const auto a = static_cast<float>(x), b = static_cast<float>(y);
    out = op == "Add" ? a + b : op == "Sub" ? a - b : op == "Mul" ? a * b : a / b;
    return out;
  }
  const __int128 a = Int(x), b = Int(y);
  if ((op == "Div" || op == "Mod") && b == 0) return 0;
  if (op == "Add") out = Wrapped(a + b, type);
  if (op == "Sub") out = Wrapped(a - b, type);
  if (op == "Mul") out = Wrapped(a * b, type);
  if (op == "Div") out = Wrapped(a / b, type);
  if (op == "Mod") {
    const __int128 rest = a % b;
    out = Wrapped(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest, type);
  }
  return out;
}

Evaluated Binary(const ModelNode& node, const Inputs& in) {
  Ints shape;
  if (!BroadcastShape(in[0]->shape, in[1]->shape, shape)) return Wrong("shapes do not broadcast");
  const bool compares = node.op == "Equal" || node.op == "Less" || node.op == "Greater";
  return One(Filled(compares ? kBool : in[0]->type, shape, [&](const Ints& at) {
    return Arithmetic(node.op, in[0]->type, BroadcastAt(*in[0], at), BroadcastAt(*in[1], at));
  }));
}

Evaluated Unary(const ModelNode& node, const Inputs& in) {
  Array out = *in[0];
  for (long double& x : out.elements) {
    if (node.op == "Neg")
      x = out.type == kFloat ? -x : Wrapped(-static_cast<__int128>(Int(x)), out.type);
    if (node.op == "Abs" && x < 0)
      x = out.type == kFloat ? -x : Wrapped(-static_cast<__int128>(Int(x)), out.type);
    if (node.op == "Relu") x = std::max<long double>(x, 0);
    if (node.op == "Floor") x = std::floor(x);
    if (node.op == "Ceil") x = std::ceil(x);
  }
  return One(std::move(out));
}

Evaluated Cast(const ModelNode& node, const Inputs& in) {
  Array out = *in[0];
  out.type = static_cast<int>(Attr(node, "to", kFloat));
  for (long double& x : out.elements) {
    if (out.type == kFloat) x = static_cast<float>(x);
    if (out.type == kBool) x = x != 0;
    if (out.type == kInt32 || out.type == kInt64) {
      if (std::abs(x) >= 0x1p62L && in[0]->type == kFloat) return Undefined("beyond the type");
      if (out.type == kInt32 && std::abs(x) >= 0x1p31L && in[0]->type == kFloat)
        return Undefined("beyond the type");
      x = Wrapped(Int(x), out.type);
    }
  }
  return One(std::move(out));
}

Evaluated Shape(const ModelNode& node, const Inputs& in) {
  const auto rank = static_cast<int64_t>(in[0]->shape.size());
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t first = place(Attr(node, "start", 0)), last = place(Attr(node, "end", rank));
  Array out{kInt64, {std::max<int64_t>(0, last - first)}, {}};
  for (int64_t i = first; i < last; ++i)
    out.elements.push_back(in[0]->shape[static_cast<size_t>(i)]);
  return One(std::move(out));
}

bool NormalAxis(int64_t& axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  return axis >= 0 && axis < static_cast<int64_t>(rank);
}

Evaluated Gather(const ModelNode& node, const Inputs& in) {
  const Array &data = *in[0], &index = *in[1];
  int64_t axis = Attr(node, "axis", 0);
  if (!NormalAxis(axis, data.shape.size())) return Wrong("axis");
  const auto a = static_cast<size_t>(axis);
  Ints shape(data.shape.begin(), data.shape.begin() + axis);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), data.shape.begin() + axis + 1, data.shape.end());
  if (IsBad(shape)) return Undefined("too large");
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
  if (IsBad(shape)) return Undefined("too large");
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
    if (repeats[i] > kMost) return Undefined("too large");
    shape[i] *= repeats[i];
  }
  if (IsBad(shape)) return Undefined("too large");
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
  if (IsBad(shape)) return Undefined("too large");
  return One(Filled(in[0]->type, shape, [&](const Ints& at) { return BroadcastAt(*in[0], at); }));
}

Evaluated Range(const Inputs& in) {
  for (const Array* x : in) {
    if (x->elements.size() != 1 || x->shape.size() > 1) return Wrong("not a number");
  }
  const long double start = in[0]->elements[0], limit = in[1]->elements[0],
                    delta = in[2]->elements[0];
  if (delta == 0) return Wrong("step 0");
  const long double count = std::ceil((limit - start) / delta);
  if (count > kMost) return Undefined("too large");
  Array out{in[0]->type, {std::max<int64_t>(0, Int(count))}, {}};
  for (int64_t i = 0; i < out.shape[0]; ++i) out.elements.push_back(start + i * delta);
  return One(std::move(out));
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

Evaluated ConstantOfShape(const ModelNode& node, const Inputs& in) {
  const Ints shape = IntsOf(*in[0]);
  for (const int64_t extent : shape) {
    if (extent < 0) return Wrong("negative extent");
  }
  if (IsBad(shape)) return Undefined("too large");
  const long double value = Attr(node, "value", 0);
  return One(Filled(kFloat, shape, [&](const Ints&) { return value; }));
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

Evaluated Where(const Inputs& in) {
  Ints both, shape;
  if (!BroadcastShape(in[0]->shape, in[1]->shape, both) ||
      !BroadcastShape(both, in[2]->shape, shape))
    return Wrong("shapes do not broadcast");
  return One(Filled(in[1]->type, shape, [&](const Ints& at) {
    return BroadcastAt(*in[0], at) != 0 ? BroadcastAt(*in[1], at) : BroadcastAt(*in[2], at);
  }));
}

Evaluated Reduce(const ModelNode& node, const Inputs& in) {
  const Array& x = *in[0];
  std::vector<bool> over(x.shape.size(), in.size() < 2);
  if (in.size() > 1) {
    for (int64_t axis : IntsOf(*in[1])) {
      if (!NormalAxis(axis, x.shape.size())) return Wrong("axis");
      over[static_cast<size_t>(axis)] = true;
    }
  }
  Ints kept, shape;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    kept.push_back(over[i] ? 1 : x.shape[i]);
    if (!over[i] || Attr(node, "keepdims", 1) != 0) shape.push_back(kept.back());
  }
  const bool product = node.op == "ReduceProd";
  Array out = Filled(x.type, kept, [&](const Ints&) { return product ? 1 : 0; });
  if (CountOf(x.shape) > 0) {
    Ints at(x.shape.size(), 0);
    do {
      Ints to = at;
      for (size_t i = 0; i < to.size(); ++i) to[i] = over[i] ? 0 : to[i];
      long double& sum = out.elements[static_cast<size_t>(Flat(to, kept))];
      sum = product ? sum * ElementAt(x, at) : sum + ElementAt(x, at);
      if (std::abs(sum) > 0x1p62L) return Undefined("too large");
    } while (Next(at, x.shape));
  }
  out.shape = shape;
  return One(std::move(out));
}

}  // namespace

Evaluated Evaluate(const ModelNode& node, const Inputs& in) {
  const std::string& op = node.op;
  for (const char* name :
       {"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Equal", "Less", "Greater"}) {
    if (op == name) return Binary(node, in);
  }
  for (const char* name : {"Neg", "Abs", "Relu", "Floor", "Ceil", "Identity"}) {
    if (op == name) return Unary(node, in);
  }
  if (op == "Cast") return Cast(node, in);
  if (op == "Shape") return Shape(node, in);
  if (op == "Size") return One({kInt64, {}, {static_cast<long double>(CountOf(in[0]->shape))}});
  if (op == "Gather") return Gather(node, in);
  if (op == "Concat") return Concat(node, in);
  if (op == "Slice") return Slice(in);
  if (op == "Pad") return Pad(in);
  if (op == "Reshape") return Reshape(node, in);
  if (op == "Tile") return Tile(in);
  if (op == "Expand") return Expand(in);
  if (op == "Range") return Range(in);
  if (op == "Transpose") return Transpose(node, in);
  if (op == "Squeeze") return Squeeze(in);
  if (op == "Unsqueeze") return Unsqueeze(in);
  if (op == "Flatten") return Flatten(node, in);
  if (op == "ConstantOfShape") return ConstantOfShape(node, in);
  if (op == "Split") return Split(node, in);
  if (op == "Where") return Where(in);
  if (op == "ReduceSum" || op == "ReduceProd") return Reduce(node, in);
  return Undefined("operator " + op);
}

Evaluated Evaluate(const Model& model, const std::map<std::string, Array>& inputs) {
  std::map<std::string, Array> values = model.constants;
  values.insert(inputs.begin(), inputs.end());
  for (const ModelNode& node : model.nodes) {
    Inputs in;
    for (const std::string& name : node.inputs)
      in.push_back(name.empty() ? nullptr : &values[name]);
    Evaluated made = Evaluate(node, in);
    if (made.outcome != Outcome::kValue) {
      made.why = node.outputs[0] + ": " + made.why;
      return made;
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) values[node.outputs[k]] = made.arrays[k];
  }
  Evaluated out;
  for (const std::string& name : model.outputs) out.arrays.push_back(values[name]);
  return out;
}

}  // namespace kiln::symbols
