// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/forwarded_loads.h"

#include <algorithm>
#include <vector>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Allocate;
using Halide::Internal::LetStmt;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Shuffle;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;

// Whether a statement stores to a buffer.
class Stores : public Halide::Internal::IRVisitor {
 public:
  static bool To(const std::string& buffer, const Stmt& stmt) {
    Stores stores(buffer);
    stmt.accept(&stores);
    return stores.any_;
  }

 private:
  explicit Stores(const std::string& buffer) : buffer_(buffer) {}
  using IRVisitor::visit;
  void visit(const Store* op) override { any_ = any_ || op->name == buffer_; }

  const std::string& buffer_;
  bool any_ = false;
};

// The vector of `lanes` elements from `first` on.
Expr VectorAt(const Load& load, int first, int lanes) {
  return Load::make(load.type.with_lanes(lanes), load.name, Ramp::make(first, 1, lanes), load.image,
                    load.param, Halide::Internal::const_true(lanes), {lanes, 0});
}

}  // namespace

Stmt ForwardedLoads::visit(const Allocate* op) {
  if (op->memory_type == Halide::MemoryType::Stack)
    sizes_[op->name] = static_cast<int>(op->constant_allocation_size());
  return IRMutator::visit(op);
}

Stmt ForwardedLoads::visit(const LetStmt* op) {
  const auto* load = op->value.as<Load>();
  if (load != nullptr && sizes_.count(load->name) > 0 && !Stores::To(load->name, op->body))
    named_[op->name] = load;
  return IRMutator::visit(op);
}

Expr ForwardedLoads::visit(const Shuffle* op) {
  if (op->vectors.size() != 1) return IRMutator::visit(op);
  const auto* name = op->vectors[0].as<Variable>();
  const auto named = name == nullptr ? named_.end() : named_.find(name->name);
  const auto* load = named == named_.end() ? op->vectors[0].as<Load>() : named->second;
  const auto* ramp = load == nullptr ? nullptr : load->index.as<Ramp>();
  if (ramp == nullptr || !Halide::Internal::is_const_one(ramp->stride) ||
      !Halide::Internal::is_const_one(load->predicate))
    return IRMutator::visit(op);
  const auto base = Halide::Internal::as_const_int(ramp->base);
  const auto size = sizes_.find(load->name);
  if (!base || size == sizes_.end()) return IRMutator::visit(op);
  const int lanes = op->type.lanes(), first = static_cast<int>(*base);
  const auto [least, most] = std::minmax_element(op->indices.begin(), op->indices.end());
  const int begin = (first + *least) / lanes * lanes, last = (first + *most) / lanes * lanes;
  if (last != begin + lanes || last + lanes > size->second) return IRMutator::visit(op);
  std::vector<int> indices;
  for (const int index : op->indices) indices.push_back(first + index - begin);
  return Shuffle::make({VectorAt(*load, begin, lanes), VectorAt(*load, last, lanes)}, indices);
}

}  // namespace kiln
