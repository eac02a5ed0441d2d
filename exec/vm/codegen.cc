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
#include "kiln/base/status_macros.h"
#include "kiln/exec/vm/plan.h"
#include "kiln/exec/vm/program.h"
#include "kiln/kernel/eval.h"
#include "kiln/kernel/math.h"

namespace kiln::vm {
namespace {

constexpr size_t kSlotBytes = 64;  // a register of one element: room for one whole vector

enum Level : uint8_t { kOnce, kRow, kBody };

struct Register {
  uint8_t size = 0;
  Level level = kOnce;  // how often it is written
  bool block = false;   // has room for a block
};

class PassBuilder {
 public:
  PassBuilder(const Plan& plan, const PassPlan& pass, const OpTable& ops, Program& program)
      : plan_(plan), pass_plan_(pass), ops_(ops), program_(program), regs_(1) {
    pass_.reads_begin = program.reads.size();
  }

  absl::StatusOr<Pass> Build() {
    Shape();
    for (const int32_t s : pass_plan_.stages) AddStageSink(s);
    for (const int32_t o : pass_plan_.outputs) AddOutputSink(o);
    if (!status_.ok()) return status_;
    MarkDirect();
    FuseHorner();
    DropUnused();
    Allocate();
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
    return in_block || (pass_.shape == Pass::Shape::kOuter && dim == pass_.over) ? kBody : kRow;
  }

  std::vector<Insn>& List(Level level) {
    return level == kOnce ? pass_.once : level == kRow ? pass_.row : pass_.body;
  }

  // Appends `insn`, or finds the register of an equal one.
  int32_t Emit(Insn insn, size_t size, Level level, bool block) {
    const auto key = std::make_tuple(insn.kind, insn.fn, insn.a, insn.b, insn.c, insn.ref, insn.imm,
                                     size, block);
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

  // Which of the operands are one element, not a block; and whether some varies within the block.
  struct Mix {
    unsigned mask = 0;
    bool body = false;
  };

  Mix MixOf(std::initializer_list<int32_t> args) {
    Mix mix;
    unsigned bit = 1;
    for (const int32_t arg : args) {
      if (arg != 0 && !Reg(arg).block) mix.mask |= bit;
      mix.body = mix.body || (arg != 0 && Reg(arg).level == kBody);
      bit *= 2;
    }
    return mix;
  }

  // A function that takes its operands as they are, varying or not.
  int32_t Direct(OpFn fn, size_t size, int32_t a, int32_t b, int32_t c) {
    Insn insn;
    insn.fn = fn;
    insn.a = a;
    insn.b = b;
    insn.c = c;
    return Emit(insn, size, kBody, true);
  }

  // Many primitives take operands that do not vary within the block as they are; the others want
  // them filled.
  int32_t Primitive(ScalarOp op, DType operand, size_t size, int32_t a, int32_t b, int32_t c) {
    const Mix mix = MixOf({a, b, c});
    const OpFn uniform =
        mix.body && mix.mask != 0 ? ops_.find_uniform(op, operand, mix.mask) : nullptr;
    return uniform != nullptr ? Direct(uniform, size, a, b, c)
                              : Op(ops_.find(op, operand), size, a, b, c);
  }

  // select(lt(p, q), p, q) and select(lt(p, q), q, p) are one step.
  int32_t Select(const ScalarExpr& expr, const ExprNode& node, int32_t condition, int32_t yes,
                 int32_t no, const std::function<int32_t(ExprId)>& value) {
    const ExprNode& test = expr.node(node.args[0]);
    if (test.op == ScalarOp::kLt && node.type == DType::kF32 &&
        expr.node(test.args[0]).type == DType::kF32) {
      const int32_t p = value(test.args[0]), q = value(test.args[1]);
      const Mix mix = MixOf({p, q});
      const bool lesser = yes == p && no == q, greater = yes == q && no == p;
      const OpFn fn =
          mix.body && (lesser || greater) ? ops_.find_choice(greater, mix.mask) : nullptr;
      if (fn != nullptr) return Direct(fn, 4, p, q, 0);
    }
    return Op(ops_.find(node.op, node.type), SizeOf(node.type), condition, yes, no);
  }

  int32_t Op(OpFn fn, size_t size, int32_t a, int32_t b = 0, int32_t c = 0) {
    if (fn == nullptr) {
      if (status_.ok())
        status_ = absl::InvalidArgumentError(
            "kernel: an operation has a type that it is not defined for");
      return a;
    }
    int32_t args[] = {a, b, c};
    Level level = kOnce;
    for (const int32_t arg : args) level = std::max(level, arg == 0 ? kOnce : Reg(arg).level);
    if (level == kBody) {
      for (int32_t& arg : args) arg = arg == 0 ? 0 : Block(arg);
    }
    Insn insn;
    insn.fn = fn;
    insn.a = args[0];
    insn.b = args[1];
    insn.c = args[2];
    return Emit(insn, size, level, level == kBody);
  }

  int32_t Leaf(Insn::Kind kind, int32_t ref, uint64_t imm, size_t size, Level level) {
    Insn insn;
    insn.kind = kind;
    insn.ref = ref;
    insn.imm = imm;
    return Emit(insn, size, level, level == kBody);
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
        return Op(FindCast(type_of(0), node.type), SizeOf(node.type), arg(0));
      case ScalarOp::kBitcast:
        return node.type == DType::kBool ? Op(&NormaliseBool, 1, arg(0)) : arg(0);
      case ScalarOp::kRoundTo:
        return Op(FindRoundTo(node.aux), 4, arg(0));
      case ScalarOp::kSelect:
      case ScalarOp::kGuard:
        return Select(expr, node, arg(0), arg(1), arg(2), [&](ExprId of) {
          return values_[{owner, of}];
        });
      default:
        return Primitive(node.op, type_of(0), SizeOf(node.type), arg(0), arg(1), arg(2));
    }
  }

  // ---- Reads.

  int32_t ReadNode(int32_t owner, const ExprNode& node, bool guarded) {
    if (node.source == ReadSource::kInput) {
      const DType type = plan_.kernel.inputs[static_cast<size_t>(node.ref)].type;
      const int32_t raw = Access(owner, node, node.ref, SizeOf(type), kOnce, guarded);
      if (type == DType::kF16) return Op(ops_.half_to_float, 4, raw);
      if (type == DType::kBF16) return Op(&BFloatToFloatBlock, 4, raw);
      if (type == DType::kBool) return Op(&NormaliseBool, 1, raw);
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
        if (!term.extent) level = std::max(level, LevelOfDim(term.dim));
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
        load = values_[{owner, index.load}];
        const DType type = ExprOf(owner).node(index.load).type;
        if (type != DType::kI64) load = Op(FindCast(type, DType::kI64), 8, load);
        level = std::max(level, Reg(load).level);
      }
      const bool linear = index.load < 0 && index.div == 1 && index.mod == 0;
      read.linear.push_back(linear ? index : IndexExpr{});
      if (!linear) read.axes.push_back({static_cast<int32_t>(k), index, load, false, 0});
    }
    if (level == kBody) {
      for (Axis& axis : read.axes) axis.load = axis.load == 0 ? 0 : Block(axis.load);
    }
    return Leaf(Insn::Kind::kRead, ReadId(std::move(read)), 0, size, level);
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
    if (output.type == DType::kF16) reg = Op(ops_.float_to_half, 2, reg);
    if (output.type == DType::kBF16) reg = Op(&FloatToBFloatBlock, 2, reg);
    Sink sink;
    sink.ref = o;
    AddSink(sink, reg, SizeOf(output.type));
  }

  // A temporary may be written by the instruction that makes it. An output may only by the last
  // instruction: what is read after it could be the input it overwrites.
  void MarkDirect() {
    std::set<int32_t> taken;
    for (Sink& sink : pass_.sinks) {
      const auto made = std::find_if(pass_.body.begin(), pass_.body.end(),
                                     [&](const Insn& i) { return i.dst == sink.reg; });
      if (made == pass_.body.end()) continue;
      if (made->kind == Insn::Kind::kRead && !pass_plan_.outputs.empty())
        program_.reads[static_cast<size_t>(made->ref)].copy = true;
      if (made->kind != Insn::Kind::kOp || sink.kind == Sink::Kind::kReduce) continue;
      const bool last = made + 1 == pass_.body.end();
      sink.direct = (sink.kind == Sink::Kind::kTemp || last) && taken.insert(sink.reg).second;
    }
  }

  // ---- Improving and finishing the lists.

  std::map<int32_t, int> UsesInBody() const {
    std::map<int32_t, int> uses;
    for (const Insn& insn : pass_.body) {
      for (const int32_t r : {insn.a, insn.b, insn.c}) ++uses[r];
      if (insn.kind != Insn::Kind::kRead) continue;
      for (const Axis& axis : program_.reads[static_cast<size_t>(insn.ref)].axes) ++uses[axis.load];
    }
    for (const Sink& sink : pass_.sinks) uses[sink.reg] += 2;  // never inside a chain
    return uses;
  }

  // The value of a register that holds an f32 constant.
  bool IsConstant(int32_t reg, float* value) const {
    for (const Insn& insn : pass_.once) {
      if (insn.dst != reg || insn.kind != Insn::Kind::kConst || insn.size != 4) continue;
      const auto bits = static_cast<uint32_t>(insn.imm);
      std::memcpy(value, &bits, sizeof(bits));
      return true;
    }
    return false;
  }

  // A step of a polynomial: a product with at most one factor that is one element, plus one that
  // is.
  bool IsStep(OpFn fn) const {
    if (fn == nullptr) return false;
    const auto is = [&](unsigned mask) {
      return fn == ops_.find_uniform(ScalarOp::kFma, DType::kF32, mask);
    };
    return is(4) || is(5) || is(6);
  }

  // Chains p = fma(p, x, k) with constant k and one x become one instruction that keeps p in a
  // processor register.
  void FuseHorner() {
    const std::map<int32_t, int> uses = UsesInBody();
    struct Chain {
      size_t insn;  // its last step
      int32_t x;    // 0 after one step: either factor may be it
      std::vector<float> k;
      bool HasX(int32_t other, const Insn& step) const {
        return other != 0 && (x != 0 ? x == other : step.a == other || step.b == other);
      }
    };
    std::map<int32_t, Chain> chains;  // by the register of the last step
    std::set<size_t> dead;
    for (size_t i = 0; i < pass_.body.size(); ++i) {
      Insn& insn = pass_.body[i];
      float k = 0;
      if (insn.kind != Insn::Kind::kOp || !IsStep(insn.fn) || !IsConstant(insn.c, &k)) continue;
      auto before = chains.end();
      for (const auto& [p, x] : {std::pair(insn.a, insn.b), std::pair(insn.b, insn.a)}) {
        const auto it = chains.find(p);
        if (it != chains.end() && uses.at(p) == 1 &&
            it->second.HasX(x, pass_.body[it->second.insn])) {
          before = it;
          before->second.x = x;
        }
      }
      if (before == chains.end()) {
        chains[insn.dst] = {i, 0, {k}};
        continue;
      }
      Chain chain = std::move(before->second);
      const Insn first = pass_.body[chain.insn];
      const int32_t start = first.table != nullptr ? first.c
                            : first.a == chain.x   ? first.b
                                                   : first.a;
      dead.insert(chain.insn);
      chains.erase(before);
      chain.k.push_back(k);
      chain.insn = i;
      insn.fn = ops_.horner;
      insn.a = chain.x;
      insn.b = 0;
      insn.c = Block(start);
      insn.imm = chain.k.size();
      pass_.tables.push_back(std::make_unique<std::vector<float>>(chain.k));
      insn.table = pass_.tables.back()->data();
      chains[insn.dst] = std::move(chain);
    }
    std::vector<Insn> kept;
    for (size_t i = 0; i < pass_.body.size(); ++i) {
      if (dead.count(i) == 0) kept.push_back(pass_.body[i]);
    }
    pass_.body = std::move(kept);
  }

  void DropUnused() {
    std::set<int32_t> used;
    for (const Sink& sink : pass_.sinks) used.insert(sink.reg);
    for (std::vector<Insn>* list : {&pass_.body, &pass_.row, &pass_.once}) {
      std::vector<Insn> kept;
      for (auto insn = list->rbegin(); insn != list->rend(); ++insn) {
        if (used.count(insn->dst) == 0) continue;
        used.insert({insn->a, insn->b, insn->c});
        if (insn->kind == Insn::Kind::kRead) {
          for (const Axis& axis : program_.reads[static_cast<size_t>(insn->ref)].axes)
            used.insert(axis.load);
        }
        kept.push_back(*insn);
      }
      list->assign(kept.rbegin(), kept.rend());
    }
  }

  static size_t BlockBytes(size_t size) { return static_cast<size_t>(kBlock) * size + kSlotBytes; }

  // Registers of the body share memory once their last reader has run; those of other lists keep
  // theirs.
  void Allocate() {
    pass_.reg_offset.assign(regs_.size(), 0);
    const auto place = [this](int32_t reg, size_t bytes) {
      pass_.reg_offset[static_cast<size_t>(reg)] = pass_.frame_bytes;
      pass_.frame_bytes += (bytes + kSlotBytes - 1) / kSlotBytes * kSlotBytes;
    };
    for (const std::vector<Insn>* list : {&pass_.once, &pass_.row}) {
      for (const Insn& insn : *list)
        place(insn.dst, Reg(insn.dst).block ? BlockBytes(insn.size) : kSlotBytes);
    }
    std::map<int32_t, int> left = UsesInBody();
    std::multimap<size_t, size_t> free;  // element size -> offset
    for (const Insn& insn : pass_.body) {
      std::vector<int32_t> args = {insn.a, insn.b, insn.c};
      if (insn.kind == Insn::Kind::kRead) {
        for (const Axis& axis : program_.reads[static_cast<size_t>(insn.ref)].axes)
          args.push_back(axis.load);
      }
      // An operand of another size must not be overwritten while it is read.
      const auto release = [&](bool same_size) {
        for (int32_t& r : args) {
          if (r == 0 || Reg(r).level != kBody ||
              (Reg(r).size == insn.size && insn.kind == Insn::Kind::kOp) != same_size)
            continue;
          if (--left[r] == 0) free.emplace(Reg(r).size, pass_.reg_offset[static_cast<size_t>(r)]);
        }
      };
      release(true);
      if (const auto it = free.find(insn.size); it != free.end()) {
        pass_.reg_offset[static_cast<size_t>(insn.dst)] = it->second;
        free.erase(it);
      } else {
        place(insn.dst, BlockBytes(insn.size));
      }
      release(false);
    }
  }

  using Key =
      std::tuple<Insn::Kind, OpFn, int32_t, int32_t, int32_t, int32_t, uint64_t, size_t, bool>;

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
  if (wide && !has_rows) return std::unique_ptr<Program>();
  auto program = std::make_unique<Program>();
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
  return program;
}

}  // namespace kiln::vm
