// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/register_transpose.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Internal::Block;
using Halide::Internal::LetStmt;
using Halide::Internal::Ramp;
using Halide::Internal::Shuffle;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;

// Binds values to names, around a statement.
class Names {
 public:
  Expr Bind(const Expr& value) {
    const std::string name = Halide::Internal::unique_name("turn");
    bound_.emplace_back(name, value);
    return Variable::make(value.type(), name);
  }
  Stmt Around(Stmt body) const {
    for (auto name = bound_.rbegin(); name != bound_.rend(); ++name) {
      body = LetStmt::make(name->first, name->second, body);
    }
    return body;
  }

 private:
  std::vector<std::pair<std::string, Expr>> bound_;
};

// One round over `rows`, squares side by side in each, for blocks of `block` elements.
void Round(std::vector<Expr>& rows, int block, Names& names) {
  const int lanes = rows[0].type().lanes(), count = static_cast<int>(rows.size());
  std::vector<int> even, odd;
  for (int i = 0; i < lanes; ++i) {
    const bool second = (i / block) % 2 == 1;
    even.push_back(second ? lanes + i - block : i);
    odd.push_back(second ? lanes + i : i + block);
  }
  for (int i = 0; i < count; ++i) {
    if ((i / block) % 2 == 1) continue;
    auto &a = rows[static_cast<size_t>(i)],
         &b = rows[static_cast<size_t>(i) + static_cast<size_t>(block)];
    const Expr low = names.Bind(Shuffle::make({a, b}, even));
    b = names.Bind(Shuffle::make({a, b}, odd));
    a = low;
  }
}

// The columns of `vectors`, where they are as many as each has elements, twice or half as many.
std::vector<Expr> Columns(const std::vector<Expr>& vectors, Names& names) {
  const size_t lanes = static_cast<size_t>(vectors[0].type().lanes());
  const size_t side = std::min(lanes, vectors.size());
  std::vector<Expr> rows;
  for (size_t i = 0; i < side; ++i) {
    const bool two = vectors.size() > side;
    rows.push_back(
        names.Bind(two ? Shuffle::make_concat({vectors[i], vectors[i + side]}) : vectors[i]));
  }
  for (int block = static_cast<int>(side) / 2; block > 0; block /= 2) Round(rows, block, names);
  std::vector<Expr> columns = rows;
  if (lanes == side) return columns;
  columns.clear();
  for (size_t part = 0; part < lanes; part += side) {
    for (const Expr& row : rows) {
      columns.push_back(
          Shuffle::make_slice(row, static_cast<int>(part), 1, static_cast<int>(side)));
    }
  }
  return columns;
}

bool IsTurn(const Store* op, const Shuffle* turned) {
  if (turned == nullptr || !turned->is_interleave() || turned->type.bits() != 32) return false;
  const auto* index = op->index.as<Ramp>();
  if (index == nullptr || !Halide::Internal::is_const_one(index->stride)) return false;
  if (index->base.type().is_vector() || !Halide::Internal::is_const_one(op->predicate))
    return false;
  const auto few = [](size_t n) { return n == 8 || n == 16; };
  return few(turned->vectors.size()) && few(static_cast<size_t>(turned->vectors[0].type().lanes()));
}

}  // namespace

Stmt RegisterTranspose::visit(const Store* op) {
  const auto* turned = op->value.as<Shuffle>();
  if (!IsTurn(op, turned)) return IRMutator::visit(op);
  const auto* index = op->index.as<Ramp>();
  Names names;
  std::vector<Stmt> stores;
  int at = 0;
  for (const Expr& column : Columns(turned->vectors, names)) {
    const int lanes = column.type().lanes();
    stores.push_back(Store::make(op->name, column,
                                 Ramp::make(index->base + at, index->stride, lanes), op->param,
                                 Halide::Internal::const_true(lanes),
                                 op->alignment + Halide::Internal::ModulusRemainder(0, at)));
    at += lanes;
  }
  return names.Around(Block::make(stores));
}

}  // namespace kiln
