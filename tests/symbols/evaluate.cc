// SPDX-License-Identifier: Apache-2.0
#include "tests/symbols/evaluate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "tests/onnx/model_writer.h"
#include "tests/symbols/evaluate_parts.h"

namespace kiln::symbols {
namespace {

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

Evaluated Range(const Inputs& in) {
  for (const Array* x : in) {
    if (x->elements.size() != 1 || x->shape.size() > 1) return Wrong("not a number");
  }
  const long double start = in[0]->elements[0], limit = in[1]->elements[0],
                    delta = in[2]->elements[0];
  if (delta == 0) return Wrong("step 0");
  const long double count = std::ceil((limit - start) / delta);
  if (count > kMost) return TooLarge();
  Array out{in[0]->type, {std::max<int64_t>(0, Int(count))}, {}};
  for (int64_t i = 0; i < out.shape[0]; ++i) out.elements.push_back(start + i * delta);
  return One(std::move(out));
}

Evaluated ConstantOfShape(const ModelNode& node, const Inputs& in) {
  const Ints shape = IntsOf(*in[0]);
  for (const int64_t extent : shape) {
    if (extent < 0) return Wrong("negative extent");
  }
  if (IsBad(shape)) return Bad(shape);
  const long double value = Attr(node, "value", 0);
  return One(Filled(kFloat, shape, [&](const Ints&) { return value; }));
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

Evaluated Evaluate(const ModelNode& node, const Inputs& in, const Values& scope) {
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
  if (op == "Range") return Range(in);
  if (op == "ConstantOfShape") return ConstantOfShape(node, in);
  if (op == "Where") return Where(in);
  if (op == "ReduceSum" || op == "ReduceProd") return Reduce(node, in);
  if (std::optional<Evaluated> moved = EvaluateMove(node, in)) return *std::move(moved);
  if (std::optional<Evaluated> windows = EvaluateWindow(node, in)) return *std::move(windows);
  if (std::optional<Evaluated> ran = EvaluateControl(node, in, scope)) return *std::move(ran);
  return Undefined("operator " + op);
}

namespace {

// Adds the names of the values that a node or its bodies read.
void AddReads(const ModelNode& node, std::set<std::string>& names) {
  names.insert(node.inputs.begin(), node.inputs.end());
  for (const auto& [name, body] : node.bodies) {
    names.insert(body->outputs.begin(), body->outputs.end());
    for (const ModelNode& inner : body->nodes) AddReads(inner, names);
  }
}

bool GivesOneOf(const ModelNode& node, const std::set<std::string>& names) {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](const std::string& name) { return names.count(name) > 0; });
}

// The names of the values on the way to the outputs.
std::set<std::string> NeededFor(const Model& model) {
  std::set<std::string> needed(model.outputs.begin(), model.outputs.end());
  for (size_t i = model.nodes.size(); i-- > 0;) {
    if (GivesOneOf(model.nodes[i], needed)) AddReads(model.nodes[i], needed);
  }
  return needed;
}

}  // namespace

Evaluated Evaluate(const Model& model, const Values& given) {
  Values values = given;
  values.insert(model.constants.begin(), model.constants.end());
  const std::set<std::string> needed = NeededFor(model);
  std::set<std::string> missing;
  Evaluated out;
  for (const ModelNode& node : model.nodes) {
    std::set<std::string> reads;
    AddReads(node, reads);
    if (std::any_of(reads.begin(), reads.end(),
                    [&](const std::string& name) { return missing.count(name) > 0; })) {
      missing.insert(node.outputs.begin(), node.outputs.end());
      continue;
    }
    Inputs in;
    for (const std::string& name : node.inputs)
      in.push_back(name.empty() ? nullptr : &values[name]);
    Evaluated made = Evaluate(node, in, values);
    if (made.outcome == Outcome::kUnneeded) made.outcome = Outcome::kUndefined;  // within a body
    if (made.outcome != Outcome::kValue) {
      made.why = node.outputs[0] + ": " + made.why;
      if (made.outcome != Outcome::kError || GivesOneOf(node, needed)) return made;
      out.outcome = Outcome::kUnneeded;
      out.why = made.why;
      missing.insert(node.outputs.begin(), node.outputs.end());
      continue;
    }
    for (size_t k = 0; k < node.outputs.size(); ++k) values[node.outputs[k]] = made.arrays[k];
  }
  for (const std::string& name : model.outputs) out.arrays.push_back(values[name]);
  return out;
}

}  // namespace kiln::symbols
