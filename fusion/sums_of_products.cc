// SPDX-License-Identifier: Apache-2.0
// A sum of products of few terms is one product of all their terms: the gradient of a weight that
// every step of a recurrence, or each of several towers, is multiplied with.
//
//   w' = transpose(a1) * b1 + transpose(a2) * b2 + ...  =  transpose([a1; a2; ...]) * [b1; b2; ...]
//
// Each product alone reads and writes all of w', which has more elements than its rows. Sums run
// over the same terms, in the order of a library. Only where the rows that are laid side by side
// are fewer elements than these passes over w', and no more at once than a few times w'; parts of a
// value that was cut up stay apart, since they were cut to be few at once.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fusion/pass.h"
#include "fusion/rewrite.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

// What lives until the product of a set runs, in results of it.
constexpr int64_t kMostResults = 4;   // speed
constexpr size_t kLeastProducts = 3;  // speed

// Whoever cut a value into parts wants few of them at once.
bool IsPart(const Graph& graph, ValueId value) {
  const Node* const node = Producer(graph, value);
  return node != nullptr && Is(*node, "slice");
}

// A product [k, m]^T * [k, n].
struct Product {
  ValueId a, b;
  int64_t terms;
};

std::optional<Product> ProductOf(const Graph& graph, ValueId value) {
  const Node* const node = Producer(graph, value);
  if (node == nullptr || !Is(*node, "matmul") || graph.value(value).type != DType::kF32 ||
      IntAttr(*node, "trans_a") == 0 || IntAttr(*node, "trans_b") != 0)
    return std::nullopt;
  const auto a = Constant(graph.value(node->inputs[0]).shape);
  const auto b = Constant(graph.value(node->inputs[1]).shape);
  if (!a || !b || a->size() != 2 || b->size() != 2 || IsPart(graph, node->inputs[0]) ||
      IsPart(graph, node->inputs[1]))
    return std::nullopt;
  return Product{node->inputs[0], node->inputs[1], a->front()};
}

// The sums that begin at the leaves and end in one value that is not itself added to such a sum.
class Sums {
 public:
  explicit Sums(Graph& graph) : graph_(graph), users_(graph.Users()) {}

  bool Run() {
    bool changed = false;
    const size_t count = graph_.nodes().size();
    for (size_t i = 0; i < count; ++i) {
      const Node& node = graph_.nodes()[i];
      if (Is(node, "add") && !IsInner(node.outputs[0])) changed = Join(node.outputs[0]) || changed;
    }
    return changed;
  }

  const absl::Status& status() const { return b_.status(); }

 private:
  // False for what Join made: a sum of products is no part of another.
  bool HasOneUser(ValueId value) const {
    const auto id = static_cast<size_t>(value.v);
    return id < users_.size() && users_[id].size() == 1 && !graph_.IsOutput(value);
  }
  bool IsInner(ValueId sum) const {
    if (!HasOneUser(sum)) return false;
    const Node& user = graph_.node(users_[static_cast<size_t>(sum.v)][0]);
    return Is(user, "add") && user.inputs[0] != user.inputs[1] &&
           graph_.value(user.outputs[0]).shape == graph_.value(sum).shape;
  }

  // What is added up to `sum`, in order.
  void Collect(ValueId sum, std::vector<ValueId>& leaves) const {
    std::vector<ValueId> open = {sum};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      const Node* const node = Producer(graph_, value);
      const bool inner = node != nullptr && Is(*node, "add") && (value == sum || IsInner(value));
      if (inner) {
        open.insert(open.end(), {node->inputs[1], node->inputs[0]});
      } else {
        leaves.push_back(value);
      }
    }
  }

  bool Join(ValueId sum) {
    std::vector<ValueId> leaves, rest;
    Collect(sum, leaves);
    std::vector<Product> products;
    for (const ValueId leaf : leaves) {
      const auto product = HasOneUser(leaf) && graph_.value(leaf).shape == graph_.value(sum).shape
                               ? ProductOf(graph_, leaf)
                               : std::nullopt;
      product ? products.push_back(*product) : rest.push_back(leaf);
    }
    if (products.size() < kLeastProducts) return false;
    const std::vector<int64_t> shape = *Constant(graph_.value(sum).shape);
    const int64_t result = shape[0] * shape[1];
    int64_t rows = 0;
    for (const Product& product : products) rows += product.terms;
    const int64_t moved = rows * (shape[0] + shape[1]);
    if (moved > result * static_cast<int64_t>(products.size() - 1)) return false;
    // Sets of about as many products, none of which moves too much.
    const int64_t sets = (moved + kMostResults * result - 1) / (kMostResults * result);
    const auto count = static_cast<int64_t>(products.size());
    if (sets * 2 > count) return false;
    for (int64_t set = 0; set < sets; ++set) {
      rest.push_back(OneProduct(
          {products.begin() + count * set / sets, products.begin() + count * (set + 1) / sets}));
    }
    ValueId whole = rest[0];
    for (size_t i = 1; i < rest.size(); ++i) whole = b_.Op("add", {whole, rest[i]});
    if (!b_.status().ok()) return false;
    graph_.ReplaceUses(sum, whole);
    return true;
  }

  ValueId OneProduct(const std::vector<Product>& products) {
    std::vector<ValueId> a, b;
    for (const Product& product : products) {
      a.push_back(product.a);
      b.push_back(product.b);
    }
    const Attrs first = {{"axis", int64_t{0}}};
    return b_.Op("matmul",
                 {b_.Op("concat", std::move(a), first), b_.Op("concat", std::move(b), first)},
                 {{"trans_a", int64_t{1}}});
  }

  Graph& graph_;
  const std::vector<std::vector<NodeId>> users_;
  GraphBuilder b_{&graph_};
};

}  // namespace

absl::StatusOr<bool> SumsOfProducts(Graph& graph, const PassContext&) {
  Sums sums(graph);
  const bool changed = sums.Run();
  KILN_RETURN_IF_ERROR(sums.status());
  return Finished(graph, changed);
}

}  // namespace kiln
