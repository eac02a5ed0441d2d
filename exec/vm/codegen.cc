// SPDX-License-Identifier: Apache-2.0
// From a plan to instructions: expressions become registers by value numbering, one pass at a time.
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/vm/finish.h"
#include "exec/vm/plan.h"
#include "exec/vm/program.h"
#include "exec/vm/sweep.h"
#include "kernel/eval.h"
#include "kernel/math.h"

namespace kiln::vm {
namespace {

// The value of a reduction of nothing, as bits.
uint64_t EmptyValue(ReduceOp op, DType type) {
  return op == ReduceOp::kAdd && IsFloat(type) ? 0 : Identity(op, type);
}

class PassBuilder {
 public:
  PassBuilder(const Plan& plan, const PassPlan& pass, const OpTable& ops, Program& program)
      : plan_(plan), pass_plan_(pass), ops_(ops), program_(program), regs_(1) {
    pass_.reads_begin = program.reads.size();
  }

  absl::StatusOr<Pass> Build() {
    Shape();
    if (program_.wide) pass_.block = kWideBlock;
    for (const int32_t s : pass_plan_.stages) AddStageSink(s);
    for (const int32_t o : pass_plan_.outputs) AddOutputSink(o);
    if (!status_.ok()) return status_;
    MarkCopied();
    FinishLists(ops_, program_.reads, regs_, pass_);
    pass_.reads_end = program_.reads.size();
    return std::move(pass_);
  }

 private:
  const Stage& StageOf(int32_t s) const { return plan_.kernel.stages[static_cast<size_t>(s)]; }
  Register& Reg(int32_t r) { return regs_[static_cast<size_t>(r)]; }

  void Shape() {
    std::vector<int32_t> dims = DimsOf(pass_plan_.dims);
    pass_.over = pass_plan_.over;
    if (pass_.over >= 0 && pass_.over != plan_.kernel.innermost()) {
      dims.erase(std::find(dims.begin(), dims.end(), pass_.over));
      pass_.shape = dims.empty() ? Pass::Shape::kSequence : Pass::Shape::kOuter;
      if (dims.empty()) dims.push_back(pass_.over);
    } else if (pass_.over >= 0) {
      pass_.shape = Pass::Shape::kLanes;
    }
    if (!dims.empty()) {
      pass_.vec = dims.back();
      dims.pop_back();
    }
    pass_.rows = std::move(dims);
  }

  // How often something that depends on the coordinate along `dim` changes.
  Level LevelOfDim(int32_t dim) const {
    const bool in_block = dim == pass_.vec || (program_.wide && (pass_plan_.dims >> dim & 1) != 0);
    if (dim == pass_.vec && plan_.kernel.num_iterated() > 1) return kInner;
    if (in_block) return kBody;
    return pass_.shape == Pass::Shape::kOuter && dim == pass_.over ? kOver : kRow;
  }

  std::vector<Insn>& List(Level level) {
    switch (level) {
      case kOnce:
        return pass_.once;
      case kRow:
        return pass_.row;
      case kOver:
        return pass_.each;
      case kInner:
        return pass_.inner;
      default:
        return pass_.body;
    }
  }

  // Appends `insn`, or finds the register of an equal one.
  int32_t Emit(Insn insn, size_t size, Level level, bool block) {
    const auto key = std::make_tuple(insn.kind, insn.fn, insn.step, insn.from, insn.a, insn.b,
                                     insn.c, insn.ref, insn.imm, size, block);
    const auto [it, is_new] = known_.try_emplace(key, static_cast<int32_t>(regs_.size()));
    if (!is_new) return it->second;
    regs_.push_back({static_cast<uint8_t>(size), level, block});
    insn.dst = it->second;
    insn.size = static_cast<uint8_t>(size);
    List(level).push_back(insn);
    return insn.dst;
  }

  // The register as a block, for use by the body.
  int32_t Block(int32_t reg) {
    if (Reg(reg).block || pass_.vec < 0) return reg;
    Insn fill;
    fill.kind = Insn::Kind::kFill;
    fill.a = reg;
    return Emit(fill, Reg(reg).size, Reg(reg).level, true);
  }

  Level LevelOf(std::initializer_list<int32_t> args) {
    Level level = kOnce;
    for (const int32_t arg : args) level = Join(level, arg == 0 ? kOnce : Reg(arg).level);
    return level;
  }

  bool HasStep(StepOp step, DType operand) const {
    return step != StepOp::kNone &&
           ops_.find_step(step, operand, Where::kA, Where::kB, Where::kA).wide != nullptr;
  }

  // What varies within the block is a step of a strip, if there is one; all else is `fn`.
  int32_t Operation(OpFn fn, StepOp step, DType from, DType to, int32_t a, int32_t b = 0,
                    int32_t c = 0) {
    const Level level = LevelOf({a, b, c});
    if (!VariesInBlock(level) || !HasStep(step, from)) return Op(fn, SizeOf(to), a, b, c);
    Insn insn;
    insn.fn = fn;
    insn.step = step;
    insn.from = from;
    insn.to = to;
    insn.a = a;
    insn.b = b;
    insn.c = c;
    return Emit(insn, SizeOf(to), level, true);
  }

  int32_t Convert(OpFn fn, DType from, DType to, int32_t a) {
    return Operation(fn, StepCast(from, to), from, to, a);
  }

  // select(lt(p, q), p, q) and select(lt(p, q), q, p) are one step.
  int32_t Select(const ScalarExpr& expr, const ExprNode& node, int32_t condition, int32_t yes,
                 int32_t no, const std::function<int32_t(ExprId)>& value) {
    const ExprNode& test = expr.node(node.args[0]);
    if (test.op == ScalarOp::kLt && node.type == DType::kF32 &&
        expr.node(test.args[0]).type == DType::kF32) {
      const int32_t p = value(test.args[0]), q = value(test.args[1]);
      const bool lesser = yes == p && no == q, greater = yes == q && no == p;
      const StepOp step = lesser ? StepOp::kLesser : greater ? StepOp::kGreater : StepOp::kNone;
      if (VariesInBlock(LevelOf({p, q})) && HasStep(step, DType::kF32))
        return Operation(nullptr, step, DType::kF32, DType::kF32, p, q);
    }
    return Operation(ops_.find(node.op, node.type), StepOpOf(node.op, node.type), node.type,
                     node.type, condition, yes, no);
  }

  int32_t Op(OpFn fn, size_t size, int32_t a, int32_t b = 0, int32_t c = 0) {
    if (fn == nullptr) {
      if (status_.ok())
        status_ = absl::InvalidArgumentError(
            "kernel: an operation has a type that it is not defined for");
      return a;
    }
    int32_t args[] = {a, b, c};
    const Level level = LevelOf({a, b, c});
    if (VariesInBlock(level)) {
      for (int32_t& arg : args) arg = arg == 0 ? 0 : Block(arg);
    }
    Insn insn;
    insn.fn = fn;
    insn.a = args[0];
    insn.b = args[1];
    insn.c = args[2];
    return Emit(insn, size, level, VariesInBlock(level));
  }

  int32_t Leaf(Insn::Kind kind, int32_t ref, uint64_t imm, size_t size, Level level) {
    Insn insn;
    insn.kind = kind;
    insn.ref = ref;
    insn.imm = imm;
    return Emit(insn, size, level, VariesInBlock(level));
  }

  int32_t Const(DType type, uint64_t bits) {
    return Leaf(Insn::Kind::kConst, 0, bits, SizeOf(type), kOnce);
  }

  // ---- Expressions. An expression is known by its owner: a stage, or an output as a negative
  // number.

  const ScalarExpr& ExprOf(int32_t owner) const {
    const int32_t output = ~owner;
    return owner >= 0 ? StageOf(owner).expr
                      : plan_.kernel.outputs[static_cast<size_t>(output)].expr;
  }

  int32_t Value(int32_t owner) {
    const ScalarExpr& expr = ExprOf(owner);
    if (values_.count({owner, expr.root()}) == 0) {
      const std::vector<bool> guarded = GuardedNodes(expr);
      for (ExprId id = 0; id <= expr.root(); ++id) {
        values_[{owner, id}] = Node(owner, expr, id, guarded[static_cast<size_t>(id)]);
      }
    }
    return values_[{owner, expr.root()}];
  }

  // Nodes that are needed only where a guard holds.
  static std::vector<bool> GuardedNodes(const ScalarExpr& expr) {
    std::vector<bool> guarded(expr.nodes().size(), true);
    guarded[static_cast<size_t>(expr.root())] = false;
    for (ExprId id = expr.root(); id >= 0; --id) {
      if (guarded[static_cast<size_t>(id)]) continue;
      const ExprNode& node = expr.node(id);
      for (int arg = 0; arg < 3; ++arg) {
        const bool under_guard = node.op == ScalarOp::kGuard && arg == 1;
        if (node.args[arg] >= 0 && !under_guard)
          guarded[static_cast<size_t>(node.args[arg])] = false;
      }
      for (const IndexExpr& index : node.index) {
        if (index.load >= 0) guarded[static_cast<size_t>(index.load)] = false;
      }
    }
    return guarded;
  }

  int32_t Node(int32_t owner, const ScalarExpr& expr, ExprId id, bool guarded) {
    const ExprNode& node = expr.node(id);
    const auto arg = [&](int k) { return node.args[k] < 0 ? 0 : values_[{owner, node.args[k]}]; };
    const auto type_of = [&](int k) { return expr.node(node.args[k]).type; };
    switch (node.op) {
      case ScalarOp::kConst:
        return Const(node.type, node.imm);
      case ScalarOp::kParam:
        return Leaf(Insn::Kind::kParam, node.ref, 0, SizeOf(node.type), kOnce);
      case ScalarOp::kExtent:
        return Leaf(Insn::Kind::kExtent, node.ref, 0, 8, kOnce);
      case ScalarOp::kIndex:
        return Leaf(Insn::Kind::kCoordinate, node.ref, 0, 8, LevelOfDim(node.ref));
      case ScalarOp::kRead:
        return ReadNode(owner, node, guarded);
      case ScalarOp::kCast:
        if (type_of(0) == node.type) return arg(0);
        return Convert(ops_.cast(type_of(0), node.type), type_of(0), node.type, arg(0));
      case ScalarOp::kBitcast:
        return node.type == DType::kBool ? Op(ops_.normalise_bool, 1, arg(0)) : arg(0);
      case ScalarOp::kRoundTo:
        return Operation(node.aux == DType::kF16 ? ops_.round_to_half : ops_.round_to_bfloat,
                         StepCast(DType::kF32, node.aux), DType::kF32, DType::kF32, arg(0));
      case ScalarOp::kAddAt:
        return arg(0);
      case ScalarOp::kSelect:
      case ScalarOp::kGuard:
        return Select(expr, node, arg(0), arg(1), arg(2), [&](ExprId of) {
          return values_[{owner, of}];
        });
      default:
        return Operation(ops_.find(node.op, type_of(0)), StepOpOf(node.op, type_of(0)), type_of(0),
                         node.type, arg(0), arg(1), arg(2));
    }
  }

  // ---- Reads.

  int32_t ReadNode(int32_t owner, const ExprNode& node, bool guarded) {
    if (node.source == ReadSource::kInput) {
      const DType type = plan_.kernel.inputs[static_cast<size_t>(node.ref)].type;
      const int32_t raw = Access(owner, node, node.ref, SizeOf(type), kOnce, guarded);
      if (type == DType::kF16) return Convert(ops_.half_to_float, type, DType::kF32, raw);
      if (type == DType::kBF16) return Convert(ops_.bfloat_to_float, type, DType::kF32, raw);
      if (type == DType::kBool) return Convert(ops_.normalise_bool, DType::kU8, type, raw);
      return raw;
    }
    const bool here = std::find(pass_plan_.stages.begin(), pass_plan_.stages.end(), node.ref) !=
                      pass_plan_.stages.end();
    const int32_t temp = plan_.temp[static_cast<size_t>(node.ref)];
    if (temp < 0 || here) return Value(node.ref);
    return Access(owner, node, temp, SizeOf(StageOf(node.ref).type), kRow, guarded);
  }

  int32_t Access(int32_t owner, const ExprNode& node, int32_t ref, size_t size, Level level,
                 bool guarded) {
    Read read;
    read.source = node.source;
    read.ref = ref;
    read.size = static_cast<uint8_t>(size);
    read.guarded = guarded;
    for (size_t k = 0; k < node.index.size(); ++k) {
      const IndexExpr& index = node.index[k];
      for (const IndexExpr::Term& term : index.terms) {
        if (!term.extent) level = Join(level, LevelOfDim(term.dim));
      }
      int32_t load = 0;
      const ExprNode* position = index.load < 0 ? nullptr : &ExprOf(owner).node(index.load);
      if (position != nullptr && position->op == ScalarOp::kConst &&
          position->type == DType::kI64) {
        read.linear.push_back({});
        read.axes.push_back(
            {static_cast<int32_t>(k), {}, 0, true, static_cast<int64_t>(position->imm)});
        continue;
      }
      if (index.load >= 0) {
        load = Position(owner, index.load);
        level = Join(level, Reg(load).level);
      }
      const bool linear = index.load < 0 && index.div == 1 && index.mod == 0;
      read.linear.push_back(linear ? index : IndexExpr{});
      if (!linear) read.axes.push_back({static_cast<int32_t>(k), index, load, false, 0});
    }
    if (VariesInBlock(level)) {
      for (Axis& axis : read.axes) axis.load = axis.load == 0 ? 0 : Block(axis.load);
    }
    return Leaf(Insn::Kind::kRead, ReadId(std::move(read)), 0, size, level);
  }

  // The register with a loaded index, as i64.
  int32_t Position(int32_t owner, ExprId load) {
    const DType type = ExprOf(owner).node(load).type;
    const int32_t reg = values_[{owner, load}];
    return type == DType::kI64 ? reg : Op(ops_.cast(type, DType::kI64), 8, reg);
  }

  int32_t ReadId(Read read) {
    const auto same = [&](int32_t id) {
      const Read& old = program_.reads[static_cast<size_t>(id)];
      return old.source == read.source && old.ref == read.ref && old.guarded == read.guarded &&
             old.linear == read.linear &&
             std::equal(old.axes.begin(), old.axes.end(), read.axes.begin(), read.axes.end(),
                        [](const Axis& a, const Axis& b) {
                          return a.axis == b.axis && a.index == b.index && a.load == b.load &&
                                 a.fixed == b.fixed && a.position == b.position;
                        });
    };
    for (const int32_t id : my_reads_) {
      if (same(id)) return id;
    }
    my_reads_.push_back(static_cast<int32_t>(program_.reads.size()));
    program_.reads.push_back(std::move(read));
    return my_reads_.back();
  }

  // ---- Sinks.

  void AddSink(Sink sink, int32_t reg, size_t size) {
    sink.reg = Block(reg);
    sink.size = static_cast<uint8_t>(size);
    pass_.sinks.push_back(sink);
  }

  void AddStageSink(int32_t s) {
    const Stage& stage = StageOf(s);
    Sink sink;
    sink.kind = stage.kind == Stage::Kind::kReduce ? Sink::Kind::kReduce : Sink::Kind::kTemp;
    sink.ref = plan_.temp[static_cast<size_t>(s)];
    if (sink.kind == Sink::Kind::kReduce) {
      sink.fns = ops_.reduce(stage.op, stage.type);
      sink.identity = Identity(stage.op, stage.type);
      sink.empty = EmptyValue(stage.op, stage.type);
      if (sink.fns.lanes == nullptr)
        status_ =
            absl::InvalidArgumentError("kernel: a reduction has a type that it is not defined for");
    }
    AddSink(sink, Value(s), SizeOf(stage.type));
  }

  void AddOutputSink(int32_t o) {
    const KernelOutput& output = plan_.kernel.outputs[static_cast<size_t>(o)];
    int32_t reg = Value(~o);
    if (output.type == DType::kF16)
      reg = Convert(ops_.float_to_half, DType::kF32, output.type, reg);
    if (output.type == DType::kBF16)
      reg = Convert(ops_.float_to_bfloat, DType::kF32, output.type, reg);
    Sink sink;
    sink.ref = o;
    if (output.adds()) AddPlaces(~o, output, sink);
    AddSink(sink, reg, SizeOf(output.type));
  }

  void AddPlaces(int32_t owner, const KernelOutput& output, Sink& sum) {
    const ExprNode& root = output.expr.node(output.expr.root());
    for (size_t axis = 0; axis < root.index.size(); ++axis) {
      if (root.index[axis].load < 0) continue;
      Sink place;
      place.kind = Sink::Kind::kPlace;
      place.size = sizeof(int64_t);
      place.ref = static_cast<int32_t>(axis);
      place.reg = Position(owner, root.index[axis].load);
      place.varies = VariesInBlock(Reg(place.reg).level);
      pass_.sinks.push_back(place);
    }
    sum.kind = Sink::Kind::kSum;
    sum.fns = ops_.reduce(ReduceOp::kAdd, output.type);
    pass_.sums = true;
  }

  // What a pass with outputs only moves is copied: it could be the input that they overwrite.
  void MarkCopied() {
    for (const Sink& sink : pass_.sinks) {
      for (const std::vector<Insn>* list : {&pass_.inner, &pass_.body}) {
        for (const Insn& insn : *list) {
          if (insn.dst == sink.reg && insn.kind == Insn::Kind::kRead && !pass_plan_.outputs.empty())
            program_.reads[static_cast<size_t>(insn.ref)].copy = true;
        }
      }
    }
  }

  using Key = std::tuple<Insn::Kind, OpFn, StepOp, DType, int32_t, int32_t, int32_t, int32_t,
                         uint64_t, size_t, bool>;

  const Plan& plan_;
  const PassPlan& pass_plan_;
  const OpTable& ops_;
  Program& program_;
  Pass pass_;
  absl::Status status_;
  std::vector<Register> regs_;  // 0 is none
  std::map<Key, int32_t> known_;
  std::map<std::pair<int32_t, ExprId>, int32_t> values_;
  std::vector<int32_t> my_reads_;
};

// Marks the reads of the first pass that reads their input.
void MarkFirstReads(Program& program) {
  std::set<int32_t> seen;
  for (const Pass& pass : program.passes) {
    std::set<int32_t> here;
    for (size_t r = pass.reads_begin; r < pass.reads_end; ++r) {
      Read& read = program.reads[r];
      if (read.source != ReadSource::kInput) continue;
      read.first = seen.count(read.ref) == 0;
      here.insert(read.ref);
    }
    seen.merge(here);
  }
}

// The processor fetches for itself what is read in one go, but not what a program picks out parts
// of.
bool ShouldFetch(const Program& program) {
  return std::any_of(program.reads.begin(), program.reads.end(),
                     [](const Read& read) { return read.guarded || !read.axes.empty(); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> CompileProgram(const Kernel& kernel, const OpTable& ops,
                                                        bool wide) {
  KILN_RETURN_IF_ERROR(Verify(kernel));
  if (kernel.num_iterated() > kMaxDims) {
    return absl::UnimplementedError(absl::StrCat("kernel: ", kernel.num_iterated(),
                                                 " iterated dims, at most ", kMaxDims,
                                                 "; merge or split some"));
  }
  KILN_ASSIGN_OR_RETURN(Kernel expanded, ExpandMath(kernel));
  for (Stage& stage : expanded.stages) stage.expr.Prune();
  for (KernelOutput& output : expanded.outputs) output.expr.Prune();
  const Plan plan = MakePlan(expanded, wide);
  const bool has_rows = std::any_of(plan.passes.begin(), plan.passes.end(),
                                    [](const PassPlan& p) { return std::popcount(p.dims) > 1; });
  if (wide && (!has_rows || Scatters(kernel))) return std::unique_ptr<Program>();
  auto program = std::make_unique<Program>();
  program->ops = &ops;
  program->wide = wide;
  program->group = plan.group;
  program->kernel = plan.kernel;
  program->num_iterated = plan.kernel.num_iterated();
  program->prefix = plan.prefix;
  program->temps.resize(static_cast<size_t>(plan.num_temps));
  for (size_t s = 0; s < plan.temp.size(); ++s) {
    if (plan.temp[s] < 0) continue;
    const Stage& stage = plan.kernel.stages[s];
    Temp& temp = program->temps[static_cast<size_t>(plan.temp[s])];
    temp.type = stage.type;
    temp.stage_dims = stage.dims;
    std::copy_if(stage.dims.begin(), stage.dims.end(), std::back_inserter(temp.dims),
                 [&](int32_t d) { return d >= plan.prefix; });
  }
  for (const PassPlan& pass : plan.passes) {
    KILN_ASSIGN_OR_RETURN(Pass built, PassBuilder(plan, pass, ops, *program).Build());
    program->max_sinks = std::max(program->max_sinks, built.sinks.size());
    program->passes.push_back(std::move(built));
  }
  MarkFirstReads(*program);
  program->fetches = ShouldFetch(*program);
  program->swept = Scatters(kernel) ? 0 : SweptPasses(*program);
  return program;
}

}  // namespace kiln::vm
