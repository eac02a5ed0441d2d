// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/vanishing_reads.h"

#include <set>
#include <string>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Call;

class FuncsRead : public Halide::Internal::IRGraphVisitor {
 public:
  std::set<std::string> names;

 private:
  using IRGraphVisitor::visit;
  void visit(const Call* op) override {
    if (op->call_type == Call::Halide) names.insert(op->name);
    IRGraphVisitor::visit(op);
  }
};

std::set<std::string> FuncsOf(const Expr& value) {
  FuncsRead funcs;
  value.accept(&funcs);
  return funcs.names;
}

}  // namespace

Expr WithoutVanishingReads(const Expr& value) {
  const std::set<std::string> read = FuncsOf(value);
  if (read.empty()) return value;
  // As when it is lowered, x - x is no 0 and x == x not true where x is a float.
  Expr simplified = Halide::Internal::simplify(
      Halide::strict_float(Halide::Internal::common_subexpression_elimination(value)));
  return FuncsOf(simplified) == read ? value : simplified;
}

}  // namespace kiln
