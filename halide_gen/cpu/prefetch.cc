// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/prefetch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernel/abi.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Type;
using Halide::Internal::Broadcast;
using Halide::Internal::Call;
using Halide::Internal::For;
using Halide::Internal::ForType;
using Halide::Internal::IfThenElse;
using Halide::Internal::IRVisitor;
using Halide::Internal::Let;
using Halide::Internal::LetStmt;
using Halide::Internal::Load;
using Halide::Internal::Ramp;
using Halide::Internal::Stmt;
using Halide::Internal::Store;
using Halide::Internal::Variable;

using Vector = Prefetching::Vector;

// Bytes of an input between what is read and what is prefetched.
constexpr int kAhead = 2048;       // speed
constexpr size_t kMostLines = 16;  // speed: asked for in a step
constexpr int kMostRows = 16;      // speed: of a tile
constexpr int kMostNames = 64;     // compile time: in an index
constexpr int kLittle = 24;        // speed: operations for each load of a step
constexpr int kMuch = 64;  // speed: expressions of a loop that has the time to ask for others

bool Holds(const std::vector<Vector>& vectors, const Vector& vector) {
  return std::any_of(vectors.begin(), vectors.end(), [&](const Vector& other) {
    return other.buffer == vector.buffer && Halide::Internal::equal(other.first, vector.first);
  });
}

// True if an expression has more than kMostNames names, or a node that is no arithmetic on
// integers.
class Opaque : public IRVisitor {
 public:
  static bool Is(const Expr& expr) {
    Opaque opaque;
    expr.accept(&opaque);
    return opaque.is_;
  }

 private:
  using IRVisitor::visit;
  void visit(const Load*) override { is_ = true; }
  void visit(const Let*) override { is_ = true; }
  void visit(const Call* op) override {
    is_ = is_ || !op->is_pure();
    IRVisitor::visit(op);
  }
  void visit(const Variable*) override { is_ = is_ || ++names_ > kMostNames; }

  bool is_ = false;
  int names_ = 0;
};

// The vectors that a step of a loop loads or stores, but not those of loops inside. Names bound in
// the step are replaced by what they stand for; where that is no arithmetic, so that they have no
// meaning before the step, vectors are left out.
class VectorsOfStep : public IRVisitor {
 public:
  VectorsOfStep() = default;
  // Of a step inside one whose names are those of `outer`, which must live on.
  explicit VectorsOfStep(const VectorsOfStep& outer) : known_(outer.known_) {
    inner_.set_containing_scope(&outer.inner_);
  }

  const std::vector<Vector>& loaded() const { return loaded_; }
  const std::vector<Vector>& stored() const { return stored_; }

 protected:
  using IRVisitor::visit;
  void visit(const For*) override {}
  void visit(const LetStmt* op) override {
    Bind(op->name, op->value);
    op->body.accept(this);
  }
  void visit(const Let* op) override {
    Bind(op->name, op->value);
    op->body.accept(this);
  }
  void visit(const Load* op) override {
    IRVisitor::visit(op);
    Add(op->name, op->type, op->index, loaded_);
  }
  void visit(const Store* op) override {
    IRVisitor::visit(op);
    Add(op->name, op->value.type(), op->index, stored_);
  }

 private:
  void Add(const std::string& buffer, const Type& type, const Expr& at,
           std::vector<Vector>& vectors) const {
    if (Opaque::Is(at)) return;
    const Expr index = Halide::Internal::substitute(known_, at);
    const auto* ramp = index.as<Ramp>();
    if (ramp == nullptr || Opaque::Is(ramp->base)) return;
    if (Halide::Internal::expr_uses_vars(ramp->base, inner_)) return;
    const auto stride = Halide::Internal::as_const_int(ramp->stride);
    if (!stride || *stride < 1 || *stride * type.bytes() > kLine / 2) return;
    const Vector vector{buffer, type.element_of(), ramp->base,
                        static_cast<int>(*stride) * ramp->lanes};
    if (!Holds(vectors, vector)) vectors.push_back(vector);
  }

  void Bind(const std::string& name, const Expr& value) {
    value.accept(this);
    // Values of other types are not written out: a chain of them may be a tree without end.
    if (!value.type().is_int_or_uint()) {
      inner_.push(name);
      return;
    }
    const Expr in_full = Halide::Internal::substitute(known_, value);
    if (Opaque::Is(in_full)) {
      inner_.push(name);
    } else {
      known_[name] = in_full;
    }
  }

  std::map<std::string, Expr> known_;
  Halide::Internal::Scope<> inner_;
  std::vector<Vector> loaded_, stored_;
};

// By how many elements `index` grows at each step of `loop`, if that is the same for all.
std::optional<Expr> Growth(const Expr& index, const For& loop) {
  if (!Halide::Internal::expr_uses_var(index, loop.name)) return std::nullopt;
  const Expr next = Variable::make(Halide::Int(32), loop.name) + 1;
  const Expr growth =
      Halide::Internal::simplify(Halide::Internal::substitute(loop.name, next, index) - index);
  if (Halide::Internal::expr_uses_var(growth, loop.name)) return std::nullopt;
  return growth;
}

// A loop, and what its steps load and store, in names that are bound outside the row.
struct LoopOfRow {
  const For* loop;
  std::vector<Vector> loaded, stored;
};

// The loops that follow each other in a row, without those inside them.
class LoopsOfRow : public VectorsOfStep {
 public:
  const std::vector<LoopOfRow>& loops() const { return loops_; }

 private:
  using VectorsOfStep::visit;
  void visit(const For* loop) override {
    if (loop->for_type != ForType::Serial) return;
    VectorsOfStep step(*this);
    loop->body.accept(&step);
    loops_.push_back({loop, step.loaded(), step.stored()});
  }

  std::vector<LoopOfRow> loops_;
};

// True if it is the rest of a row of `buffer` that a step loads itself: the loops do the row.
bool LoadedInside(const std::vector<LoopOfRow>& loops, const std::string& buffer) {
  return std::any_of(loops.begin(), loops.end(), [&](const LoopOfRow& loop) {
    return std::any_of(loop.loaded.begin(), loop.loaded.end(),
                       [&](const Vector& vector) { return vector.buffer == buffer; });
  });
}

// How many expressions a loop has.
class Size : public Halide::Internal::IRMutator {
 public:
  static int Of(const Stmt& body) {
    Size size;
    size.mutate(body);
    return size.size_;
  }

  Expr mutate(const Expr& expr) override {
    ++size_;
    return IRMutator::mutate(expr);
  }
  using IRMutator::mutate;

 private:
  int size_ = 0;
};

// How many operations on vectors a step has; of two cases, those of the longer.
class Operations : public Halide::Internal::IRMutator {
 public:
  static int Of(const Stmt& body) {
    Operations operations;
    operations.mutate(body);
    return operations.count_;
  }

  Expr mutate(const Expr& expr) override {
    const bool moves = expr.as<Load>() != nullptr || expr.as<Ramp>() != nullptr ||
                       expr.as<Variable>() != nullptr || expr.as<Broadcast>() != nullptr;
    if (expr.type().is_vector() && !moves) ++count_;
    return IRMutator::mutate(expr);
  }
  using IRMutator::mutate;

 private:
  using IRMutator::visit;
  Stmt visit(const IfThenElse* op) override {
    count_ += std::max(Of(op->then_case), op->else_case.defined() ? Of(op->else_case) : 0);
    return op;
  }
  int count_ = 0;
};

// Whether a step that loads `vectors` has less than `operations` for each.
bool ComputesLess(const For& loop, const std::vector<Vector>& vectors, int operations) {
  return Operations::Of(loop.body) < operations * static_cast<int>(vectors.size());
}

// How many elements a step of `loop` goes along; not positive if that is not known.
int64_t ElementsPerStep(const LoopOfRow& loop) {
  int64_t most = 0;
  for (const std::vector<Vector>* vectors : {&loop.loaded, &loop.stored}) {
    for (const Vector& vector : *vectors) {
      const std::optional<Expr> growth = Growth(vector.first, *loop.loop);
      const auto step = growth ? Halide::Internal::as_const_int(*growth) : std::nullopt;
      if (step) most = std::max(most, *step);
    }
  }
  return most;
}

// `body` of a step that asks for `vector`, as far as `lines` allows. `with_non_temporal`: also
// where results bypass the caches; what is not stands there twice (non_temporal.h).
Stmt Asking(const Vector& vector, bool with_non_temporal, size_t& lines, Stmt body) {
  const Expr base = Variable::make(Halide::Handle(), vector.buffer);
  const Expr first = Halide::Internal::simplify(vector.first);
  const int size = vector.type.bytes();
  for (int at = 0; at < vector.span * size && lines < kMostLines; at += int{kLine}, ++lines) {
    const Expr line =
        Call::make(vector.type, Call::prefetch, {base, first + at / size, 1, 1}, Call::Intrinsic);
    for (int times = with_non_temporal ? 1 : 2; times > 0; --times)
      body = Halide::Internal::Block::make(Halide::Internal::Evaluate::make(line), body);
  }
  return body;
}

// A loop that writes a row of an output waits for the lines that it writes; the one before it in
// the row with the most to compute, if that is much, has the time to ask for them.
void FindWrites(const std::vector<LoopOfRow>& row, const std::set<std::string>& outputs,
                Prefetching::Asked& asked) {
  const For* busy = nullptr;
  int most = kMuch;
  int64_t per_step = 0;
  for (const LoopOfRow& loop : row) {
    bool writes = false;
    for (const Vector& vector : loop.stored) {
      if (outputs.count(vector.buffer) == 0) continue;
      writes = true;
      const std::optional<Expr> growth = Growth(vector.first, *loop.loop);
      if (busy == nullptr || !growth || !Halide::Internal::is_const(*growth)) continue;
      const Expr step = Variable::make(Halide::Int(32), busy->name);
      const Expr begin = Halide::Internal::substitute(loop.loop->name, 0, vector.first);
      const auto span = static_cast<int>(per_step);
      asked[busy].push_back({vector.buffer, vector.type, begin + step * span, span});
    }
    if (writes) continue;
    const int size = Size::Of(loop.loop->body);
    const int64_t along = ElementsPerStep(loop);
    if (along <= 0 || size <= most) continue;
    busy = loop.loop;
    most = size;
    per_step = along;
  }
}

// `vector` where `loop` begins.
Vector BeginOf(const Vector& vector, const For& loop) {
  const Expr begin = Halide::Internal::substitute(loop.name, 0, vector.first);
  return {vector.buffer, vector.type, Halide::Internal::simplify(begin), 0};
}

// Whether `loop` reads another part of the buffer than one from `begin` on.
bool ReadsElsewhere(const LoopOfRow& loop, const Vector& begin) {
  std::vector<Vector> same;
  for (const Vector& vector : loop.loaded)
    if (vector.buffer == begin.buffer) same.push_back(BeginOf(vector, *loop.loop));
  return !same.empty() && !Holds(same, begin);
}

// A row that several loops walk comes from memory in the first of them, which computes little. The
// one of the others that computes most has the time to ask for the next row. Loops that walk a part
// each do not wait for each other.
void FindNextRow(const For* rows, const std::vector<LoopOfRow>& row,
                 const std::set<std::string>& inputs, Prefetching::Asked& asked) {
  if (row.size() < 2) return;
  const auto busy = std::max_element(row.begin() + 1, row.end(), [](const auto& a, const auto& b) {
    return Size::Of(a.loop->body) < Size::Of(b.loop->body);
  });
  if (Size::Of(busy->loop->body) <= kMuch) return;
  const int64_t along = ElementsPerStep(*busy);
  if (along <= 0) return;
  const Expr step = Variable::make(Halide::Int(32), busy->loop->name);
  const Expr next = Variable::make(Halide::Int(32), rows->name) + 1;
  std::vector<Vector> found;
  for (auto loop = row.begin(); loop != busy; ++loop) {
    for (const Vector& vector : loop->loaded) {
      const std::optional<Expr> growth = Growth(vector.first, *loop->loop);
      if (inputs.count(vector.buffer) == 0 || !growth || !Growth(vector.first, *rows)) continue;
      if (!Halide::Internal::is_const(*growth)) continue;
      const Vector row_of = BeginOf(vector, *loop->loop);
      if (!Holds(found, row_of) && !ReadsElsewhere(*busy, row_of)) found.push_back(row_of);
    }
  }
  for (Vector& vector : found) {
    vector.first = Halide::Internal::substitute(rows->name, next, vector.first) +
                   step * static_cast<int>(along);
    vector.span = static_cast<int>(along);
    asked[busy->loop].push_back(vector);
  }
}

// A tile writes a few lines that lie far from each other: the step of `loop` before asks for them.
void FindTiles(const For* loop, const std::vector<LoopOfRow>& tiles,
               const std::set<std::string>& outputs, Prefetching::Asked& asked) {
  const Expr next = Variable::make(Halide::Int(32), loop->name) + 1;
  for (const LoopOfRow& tile : tiles) {
    const auto rows = Halide::Internal::as_const_int(tile.loop->extent);
    if (!rows || *rows > kMostRows) continue;
    for (const Vector& vector : tile.stored) {
      if (outputs.count(vector.buffer) == 0) continue;
      const std::optional<Expr> growth = Growth(vector.first, *tile.loop);
      if (growth && Halide::Internal::is_const(*growth, vector.span)) continue;  // no tile
      const Expr first = Halide::Internal::substitute(loop->name, next, vector.first);
      for (int row = 0; row < *rows; ++row) {
        const Expr at = Halide::Internal::substitute(tile.loop->name, row, first);
        const Vector line = {vector.buffer, vector.type, Halide::Internal::simplify(at),
                             vector.span};
        if (!Holds(asked[loop], line)) asked[loop].push_back(line);
      }
    }
  }
}

}  // namespace

Stmt Prefetching::visit(const For* loop) {
  LoopsOfRow step;
  loop->body.accept(&step);
  FindWrites(step.loops(), outputs_, writes_);
  if (loop->for_type == ForType::Serial) FindNextRow(loop, step.loops(), inputs_, next_);
  FindTiles(loop, step.loops(), outputs_, writes_);
  Stmt body = mutate(loop->body);
  if (loop->for_type != ForType::Serial) {
    return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy,
                     loop->device_api, body);
  }
  // The processor sees loads that follow each other, and fetches early enough for a loop with
  // little else to do; to ask takes room for misses away from it.
  const bool by_itself = !step.loaded().empty() && ComputesLess(*loop, step.loaded(), kLittle);
  size_t lines = 0;
  for (Vector vector : step.loaded()) {
    if (inputs_.count(vector.buffer) == 0 || LoadedInside(step.loops(), vector.buffer)) continue;
    const std::optional<Expr> growth = Growth(vector.first, *loop);
    if (!growth) continue;
    const int size = vector.type.bytes();
    const auto known = Halide::Internal::as_const_int(*growth);
    // Rows of a few elements would ask for each of their lines again and again.
    if (!known && vector.span * size < int{kLine} / 2) continue;
    if (by_itself && known && std::abs(*known) <= vector.span) continue;
    const int64_t step_bytes = (known ? std::abs(*known) : vector.span) * size;
    const int64_t steps = std::max<int64_t>(1, kAhead / std::max<int64_t>(1, step_bytes));
    vector.first += *growth * static_cast<int>(steps);
    body = Asking(vector, /*with_non_temporal=*/true, lines, body);
  }
  // So do non-temporal stores.
  const bool has_room = !ComputesLess(*loop, step.loaded(), kLittle / 2);
  for (const Vector& vector : next_[loop]) body = Asking(vector, has_room, lines, body);
  lines = 0;
  for (const Vector& vector : writes_[loop])
    body = Asking(vector, /*with_non_temporal=*/false, lines, body);
  return For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy,
                   loop->device_api, body);
}

}  // namespace kiln
