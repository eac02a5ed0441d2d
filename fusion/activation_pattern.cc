// SPDX-License-Identifier: Apache-2.0
#include "fusion/activation_pattern.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "fusion/literal.h"
#include "graph/op.h"

namespace kiln {
namespace {

constexpr int kMaxDepth = 8;  // compile time: nodes from x to its result

// Whether `number`, which a graph has as f32 or as a quotient of some, is `exact` as well as f32
// can say: anything further off is another function, and is computed as it is written.
bool Near(double number, double exact) {
  return std::abs(number - exact) <= std::abs(exact) * std::numeric_limits<float>::epsilon();
}

// value = factor * product of `factors`.
struct FactorList {
  double factor = 1;
  std::vector<ValueId> factors;
};

// Matches what lies between `x` and a result; collects the nodes it has looked through.
class Matcher {
 public:
  Matcher(const Graph& graph, ValueId x) : graph_(graph), x_(x) {}

  std::optional<ActivationPattern> Match(ValueId result) {
    const FactorList product = Flatten(result);
    if (product.factors.size() != 2) return std::nullopt;
    for (const int k : {0, 1}) {
      if (product.factors[static_cast<size_t>(k)] != x_) continue;
      const ValueId bell = product.factors[static_cast<size_t>(1 - k)];
      for (const auto match : {&Matcher::Gelu, &Matcher::Swish, &Matcher::HardSwish}) {
        const std::set<NodeId> before = nodes_;
        if (auto found = (this->*match)(product.factor, bell)) {
          found->nodes.assign(nodes_.begin(), nodes_.end());
          return found;
        }
        nodes_ = before;
      }
    }
    return std::nullopt;
  }

 private:
  // The producer of `value` if it is that op; enters it.
  const Node* Enter(ValueId value, absl::string_view op) {
    const NodeId id = graph_.value(value).producer;
    if (value == x_ || id.v < 0 || op != graph_.node(id).op->name) return nullptr;
    nodes_.insert(id);
    return &graph_.node(id);
  }

  FactorList Flatten(ValueId value) {
    FactorList product;
    Multiply(value, product, kMaxDepth);
    return product;
  }

  void Multiply(ValueId value, FactorList& product, int depth) {
    const std::optional<double> number = NumberOf(graph_.value(value));
    if (number) {
      product.factor *= *number;
      return;
    }
    const NodeId id = graph_.value(value).producer;
    if (value != x_ && id.v >= 0 && depth > 0) {
      const Node& node = graph_.node(id);
      const absl::string_view op = node.op->name;
      const double right =
          node.inputs.size() == 2 ? NumberOf(graph_.value(node.inputs[1])).value_or(NAN) : NAN;
      if (op == "mul" || (op == "div" && !std::isnan(right)) || (op == "pow" && right == 3)) {
        nodes_.insert(id);
        Multiply(node.inputs[0], product, depth - 1);
        if (op == "mul") Multiply(node.inputs[1], product, depth - 1);
        if (op == "div") product.factor /= right;
        if (op == "pow") {
          Multiply(node.inputs[0], product, depth - 1);
          Multiply(node.inputs[0], product, depth - 1);
        }
        return;
      }
    }
    product.factors.push_back(value);
  }

  bool IsMultipleOfX(ValueId value, double factor) {
    const FactorList product = Flatten(value);
    return Near(product.factor, factor) && product.factors == std::vector<ValueId>{x_};
  }

  // value = other + number, for the number given.
  std::optional<ValueId> MinusNumber(ValueId value, double number) {
    const Node* add = Enter(value, "add");
    if (add == nullptr) return std::nullopt;
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const std::optional<double> c = NumberOf(graph_.value(add->inputs[k]));
      if (c && Near(*c, number)) return add->inputs[1 - k];
    }
    return std::nullopt;
  }

  // 0.5 * x * (1 + erf(x / sqrt(2))), or 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
  std::optional<ActivationPattern> Gelu(double factor, ValueId bell) {
    if (!Near(factor, 0.5)) return std::nullopt;
    const std::optional<ValueId> inner = MinusNumber(bell, 1);
    if (!inner) return std::nullopt;
    if (const Node* erf = Enter(*inner, "erf")) {
      if (!IsMultipleOfX(erf->inputs[0], std::sqrt(0.5))) return std::nullopt;
      return ActivationPattern{"gelu_erf", {}, {}};
    }
    const Node* tanh = Enter(*inner, "tanh");
    if (tanh == nullptr || !IsGeluPolynomial(tanh->inputs[0])) return std::nullopt;
    return ActivationPattern{"gelu_tanh", {}, {}};
  }

  bool IsGeluPolynomial(ValueId value) {
    constexpr double kCubic = 0.044715;  // correctness
    const FactorList product = Flatten(value);
    if (!Near(product.factor, std::sqrt(2 / M_PI)) || product.factors.size() > 2) return false;
    if (product.factors.size() == 1) {  // c * (x + 0.044715 x^3)
      const Node* add = Enter(product.factors[0], "add");
      if (add == nullptr) return false;
      const ValueId cube = add->inputs[add->inputs[0] == x_ ? 1 : 0];
      const FactorList cubic = Flatten(cube);
      return (add->inputs[0] == x_ || add->inputs[1] == x_) && Near(cubic.factor, kCubic) &&
             cubic.factors == std::vector<ValueId>{x_, x_, x_};
    }
    for (const size_t k : {size_t{0}, size_t{1}}) {  // c * x * (1 + 0.044715 x^2)
      if (product.factors[k] != x_) continue;
      const std::optional<ValueId> square = MinusNumber(product.factors[1 - k], 1);
      if (!square) continue;
      const FactorList squared = Flatten(*square);
      return Near(squared.factor, kCubic) && squared.factors == std::vector<ValueId>{x_, x_};
    }
    return false;
  }

  // x * sigmoid(alpha * x)
  std::optional<ActivationPattern> Swish(double factor, ValueId bell) {
    const Node* sigmoid = Enter(bell, "sigmoid");
    if (factor != 1 || sigmoid == nullptr) return std::nullopt;
    const FactorList product = Flatten(sigmoid->inputs[0]);
    if (product.factors != std::vector<ValueId>{x_}) return std::nullopt;
    return ActivationPattern{"swish", {product.factor}, {}};
  }

  // x * clip(x + 3, 0, 6) / 6, or x * hard_sigmoid(x) with 1/6 and 1/2.
  std::optional<ActivationPattern> HardSwish(double factor, ValueId bell) {
    if (const Node* sigmoid = Enter(bell, "hard_sigmoid")) {
      const bool same = factor == 1 && sigmoid->inputs[0] == x_ &&
                        Near(FloatAttr(*sigmoid, "alpha"), 1.0 / 6) &&
                        Near(FloatAttr(*sigmoid, "beta"), 0.5);
      if (!same) return std::nullopt;
      return ActivationPattern{"hard_swish", {}, {}};
    }
    const Node* clip = Enter(bell, "clip");
    if (clip == nullptr || clip->inputs.size() != 3 || !Near(factor, 1.0 / 6)) return std::nullopt;
    const auto number = [&](size_t k) {
      return clip->inputs[k].valid() ? NumberOf(graph_.value(clip->inputs[k]))
                                     : std::optional<double>();
    };
    if (number(1) != 0.0 || number(2) != 6.0 || MinusNumber(clip->inputs[0], 3) != x_)
      return std::nullopt;
    return ActivationPattern{"hard_swish", {}, {}};
  }

  const Graph& graph_;
  const ValueId x_;
  std::set<NodeId> nodes_;
};

// Nothing leaves the pattern but its result, and nobody else reads x.
bool IsClosed(const Graph& graph, const std::vector<std::vector<NodeId>>& users, ValueId x,
              const ActivationPattern& pattern) {
  const auto inside = [&](ValueId value) {
    if (graph.IsOutput(value)) return false;
    const std::vector<NodeId>& readers = users[static_cast<size_t>(value.v)];
    return std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return std::binary_search(pattern.nodes.begin(), pattern.nodes.end(), reader);
    });
  };
  if (!inside(x)) return false;
  for (size_t i = 0; i < pattern.nodes.size(); ++i) {
    const ValueId value = graph.node(pattern.nodes[i]).outputs[0];
    const bool plain =
        graph.value(value).type == DType::kF32 && graph.value(value).shape == graph.value(x).shape;
    if (!plain || (i + 1 < pattern.nodes.size() && !inside(value))) return false;
  }
  return true;
}

}  // namespace

std::optional<ActivationPattern> FindActivation(const Graph& graph,
                                                const std::vector<std::vector<NodeId>>& users,
                                                ValueId x) {
  // Whatever reads x is in the pattern, and all of it leads to the result: following first readers
  // passes it.
  if (users[static_cast<size_t>(x.v)].size() < 2) return std::nullopt;
  ValueId value = x;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const std::vector<NodeId>& readers = users[static_cast<size_t>(value.v)];
    if (readers.empty()) return std::nullopt;
    const Node& node = graph.node(readers.back());
    if (node.op->kind != OpKind::kScalar || node.outputs.size() != 1) return std::nullopt;
    value = node.outputs[0];
    const bool product =
        absl::string_view(node.op->name) == "mul" || absl::string_view(node.op->name) == "div";
    if (!product) continue;
    std::optional<ActivationPattern> found = Matcher(graph, x).Match(value);
    if (found && IsClosed(graph, users, x, *found)) return found;
  }
  return std::nullopt;
}

}  // namespace kiln
