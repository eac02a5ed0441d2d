// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan: bodies are models that read what is around them.
#include <algorithm>

#include "tests/onnx/model_writer.h"
#include "tests/symbols/evaluate_parts.h"

namespace kiln::symbols {
namespace {

constexpr int64_t kMostIterations = 64;

// What the iterations of a loop leave, one on the other.
class Stacks {
 public:
  explicit Stacks(size_t count) : stacks_(count) {}
  // False: of another shape than the ones before.
  bool Push(size_t k, const Array& array) {
    Stack& stack = stacks_[k];
    if (stack.iterations++ == 0) {
      stack.array = {array.type, array.shape, {}};
    } else if (stack.array.shape != array.shape) {
      return false;
    }
    stack.array.elements.insert(stack.array.elements.end(), array.elements.begin(),
                                array.elements.end());
    return true;
  }
  std::vector<Array> Take() {
    std::vector<Array> arrays;
    for (Stack& stack : stacks_) {
      stack.array.shape.insert(stack.array.shape.begin(), stack.iterations);
      arrays.push_back(std::move(stack.array));
    }
    return arrays;
  }

 private:
  struct Stack {
    int64_t iterations = 0;
    Array array;
  };
  std::vector<Stack> stacks_;
};

Evaluated RunBody(const Model& body, const std::vector<Array>& inputs, Values scope) {
  for (size_t k = 0; k < inputs.size(); ++k) scope[body.inputs[k].name] = inputs[k];
  return Evaluate(body, scope);
}

// Of a body that no iteration runs, which may have no result for what is carried into it.
Evaluated NoIteration(const Evaluated& first, std::vector<Array> state, size_t results) {
  if (first.outcome != Outcome::kValue)
    return {Outcome::kOpen, "a body that does not fit and never runs", {}};
  if (results > state.size()) return {Outcome::kOpen, "no iteration", {}};
  return {Outcome::kValue, "", std::move(state)};
}

Evaluated If(const ModelNode& node, const Inputs& in, const Values& scope) {
  if (in[0]->elements.size() != 1) return Wrong("not one condition");
  const char* chosen = in[0]->elements[0] != 0 ? "then_branch" : "else_branch";
  return Evaluate(*node.bodies.at(chosen), scope);
}

// The carried values and what the iterations have left.
Evaluated Loop(const ModelNode& node, const Inputs& in, const Values& scope) {
  const Model& body = *node.bodies.at("body");
  const size_t carried = in.size() - 2;
  const int64_t trips = in[0] != nullptr ? Int(in[0]->elements[0]) : kMostIterations + 1;
  bool goes_on = in[1] == nullptr || in[1]->elements[0] != 0;
  std::vector<Array> state;
  for (size_t k = 0; k < carried; ++k) state.push_back(*in[2 + k]);
  Stacks stacks(body.outputs.size() - 1 - carried);
  int64_t iteration = 0;
  const auto run = [&] {
    std::vector<Array> inputs = {{kInt64, {}, {static_cast<long double>(iteration)}},
                                 {kBool, {}, {1}}};
    inputs.insert(inputs.end(), state.begin(), state.end());
    return RunBody(body, inputs, scope);
  };
  if (trips <= 0 || !goes_on) {
    const Evaluated first = run();
    return NoIteration(first, std::move(state), body.outputs.size() - 1);
  }
  for (; iteration < trips && goes_on; ++iteration) {
    if (iteration >= kMostIterations) return Undefined("many iterations");
    Evaluated made = run();
    if (made.outcome != Outcome::kValue) return made;
    goes_on = made.arrays[0].elements[0] != 0;
    for (size_t k = 0; k < carried; ++k) state[k] = made.arrays[1 + k];
    for (size_t k = 1 + carried; k < made.arrays.size(); ++k) {
      if (!stacks.Push(k - 1 - carried, made.arrays[k])) return Wrong("iterations of other shapes");
    }
  }
  Evaluated out;
  out.arrays = std::move(state);
  for (Array& stack : stacks.Take()) out.arrays.push_back(std::move(stack));
  return out;
}

// The elements of `x` at `place` of `axis`, without that axis.
Array SliceAt(const Array& x, size_t axis, int64_t place) {
  Ints shape = x.shape;
  shape.erase(shape.begin() + static_cast<int64_t>(axis));
  return Filled(x.type, shape, [&](const Ints& at) {
    Ints from = at;
    from.insert(from.begin() + static_cast<int64_t>(axis), place);
    return ElementAt(x, from);
  });
}

Evaluated Scan(const ModelNode& node, const Inputs& in, const Values& scope) {
  const Model& body = *node.bodies.at("body");
  const auto scanned = static_cast<size_t>(Attr(node, "num_scan_inputs", 1));
  const size_t carried = in.size() - scanned;
  const Ints axes = ListAttr(node, "scan_input_axes", Ints(scanned, 0));
  const Ints backwards = ListAttr(node, "scan_input_directions", Ints(scanned, 0));
  std::vector<Array> state;
  for (size_t k = 0; k < carried; ++k) state.push_back(*in[k]);
  int64_t iterations = -1;
  for (size_t k = 0; k < scanned; ++k) {
    const int64_t extent = in[carried + k]->shape[static_cast<size_t>(axes[k])];
    if (iterations >= 0 && iterations != extent) return Wrong("scanned axes differ");
    iterations = extent;
  }
  Stacks stacks(body.outputs.size() - carried);
  for (int64_t iteration = 0; iteration < iterations; ++iteration) {
    std::vector<Array> inputs = state;
    for (size_t k = 0; k < scanned; ++k) {
      inputs.push_back(SliceAt(*in[carried + k], static_cast<size_t>(axes[k]),
                               backwards[k] != 0 ? iterations - 1 - iteration : iteration));
    }
    Evaluated made = RunBody(body, inputs, scope);
    if (made.outcome != Outcome::kValue) return made;
    for (size_t k = 0; k < carried; ++k) state[k] = made.arrays[k];
    for (size_t k = carried; k < made.arrays.size(); ++k) {
      if (!stacks.Push(k - carried, made.arrays[k])) return Wrong("iterations of other shapes");
    }
  }
  if (iterations == 0 && body.outputs.size() > carried) return {Outcome::kOpen, "no iteration", {}};
  Evaluated out;
  out.arrays = std::move(state);
  for (Array& stack : stacks.Take()) out.arrays.push_back(std::move(stack));
  return out;
}

}  // namespace

std::optional<Evaluated> EvaluateControl(const ModelNode& node, const Inputs& in,
                                         const Values& scope) {
  if (node.op == "If") return If(node, in, scope);
  if (node.op == "Loop") return Loop(node, in, scope);
  if (node.op == "Scan") return Scan(node, in, scope);
  return std::nullopt;
}

}  // namespace kiln::symbols
