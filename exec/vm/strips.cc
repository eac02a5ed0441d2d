// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/strips.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

namespace kiln::vm {
namespace {

constexpr size_t kMaxOperations = 192;  // correctness: of a strip
constexpr size_t kNever = std::numeric_limits<size_t>::max();

bool IsStep(const Insn& insn) { return insn.kind == Insn::Kind::kOp && insn.step != StepOp::kNone; }

// Whether the operation is no slower by itself: it takes blocks only.
bool StandsAlone(const Insn& insn, const std::vector<Register>& regs) {
  const auto fits = [&](int32_t reg) { return reg == 0 || regs[static_cast<size_t>(reg)].block; };
  return insn.fn != nullptr && fits(insn.a) && fits(insn.b) && fits(insn.c);
}

// What of an instruction's operands is in memory with another type than `from`: conditions.
DType TypeOf(const Insn& insn, size_t operand) {
  return insn.step == StepOp::kSelect && operand == 0 ? DType::kBool : insn.from;
}

// The steps of a strip in an order in which few values wait for their use: of an operation's
// operands the one that takes most is computed first, conditions last. Comparisons are made anew
// for each use, which costs less than to keep them.
class StripOrder {
 public:
  StripOrder(const std::vector<Insn>& insns, const std::set<int32_t>& needed, size_t num_registers)
      : insns_(insns), needed_(needed), next_(static_cast<int32_t>(num_registers)) {
    for (size_t i = 0; i < insns.size(); ++i) {
      makers_[insns[i].dst] = i;
      int height = 0;
      for (const int32_t reg : {insns[i].a, insns[i].b, insns[i].c}) {
        if (makers_.count(reg) != 0) height = std::max(height, heights_[makers_.at(reg)]);
      }
      heights_.push_back(height + 1);
    }
  }

  std::vector<Insn> Make() {
    for (const Insn& insn : insns_) {
      if (needed_.count(insn.dst) != 0) Visit(insn.dst);
    }
    return std::move(out_);
  }

 private:
  static bool Compares(const Insn& insn) {
    return insn.to == DType::kBool && insn.step >= StepOp::kEq && insn.step <= StepOp::kLeInt;
  }

  void Visit(int32_t reg) {
    const auto maker = makers_.find(reg);
    if (maker == makers_.end() || !done_.insert(reg).second) return;
    Append(insns_[maker->second]);
  }

  void Append(Insn insn) {
    std::array<int32_t*, 3> operands = {&insn.a, &insn.b, &insn.c};
    const auto height = [&](const int32_t* reg) {
      const auto maker = makers_.find(*reg);
      if (maker == makers_.end()) return 0;
      return insn.step == StepOp::kSelect && reg == &insn.a ? 1 : 1 + heights_[maker->second];
    };
    std::stable_sort(operands.begin(), operands.end(),
                     [&](const int32_t* p, const int32_t* q) { return height(p) > height(q); });
    for (int32_t* reg : operands) {
      const auto maker = makers_.find(*reg);
      if (maker == makers_.end()) continue;
      if (!Compares(insns_[maker->second]) || needed_.count(*reg) != 0) {
        Visit(*reg);
        continue;
      }
      Insn again = insns_[maker->second];
      *reg = again.dst = next_++;
      Append(again);
    }
    out_.push_back(insn);
  }

  const std::vector<Insn>& insns_;
  const std::set<int32_t>& needed_;
  int32_t next_;
  std::map<int32_t, size_t> makers_;  // by register
  std::vector<int> heights_;
  std::set<int32_t> done_;
  std::vector<Insn> out_;
};

// Writes the steps of one strip. Each value is in A when it is computed; before A is overwritten, a
// value that is needed again goes to B or to a slot, whichever of A's and B's is needed first
// staying in B.
class StripWriter {
 public:
  StripWriter(const OpTable& ops, const std::vector<Register>& regs, const std::vector<Insn>& insns,
              const std::set<int32_t>& wanted, const std::set<int32_t>& outputs)
      : ops_(ops), regs_(regs), insns_(insns), outputs_(outputs) {
    for (size_t i = 0; i < insns.size(); ++i) {
      if (wanted.count(insns[i].dst) == 0) inside_.insert(insns[i].dst);
      for (const int32_t reg : OperandsAt(i)) {
        if (reg != 0) uses_[reg].push_back(i);
      }
    }
  }

  Strip Write() {
    for (size_t i = 0; i < insns_.size(); ++i) {
      Operation(i);
      if (inside_.count(in_a_) == 0) {
        Move(StepMove::kStore, insns_[i].to, in_a_);
        strip_.writes.push_back(in_a_);
        strip_.last.push_back(in_a_);
      }
      for (const int32_t reg : OperandsAt(i)) {
        if (slots_.count(reg) != 0 && NextUse(reg, i) == kNever) FreeSlot(reg);
      }
    }
    if (inside_.count(in_a_) == 0) {
      strip_.steps.back().fn = ops_.find_move(StepMove::kStoreEnd, insns_.back().to);
      strip_.steps.back().past = ops_.find_move(StepMove::kNonTemporalEnd, insns_.back().to);
    } else {
      Move(StepMove::kEnd, DType::kF32, 0);
    }
    return std::move(strip_);
  }

  size_t num_slots() const { return num_slots_; }

 private:
  using Operands = std::array<int32_t, 3>;
  Operands OperandsAt(size_t i) const { return {insns_[i].a, insns_[i].b, insns_[i].c}; }

  // The first instruction from `from` on that reads the register.
  size_t UseFrom(int32_t reg, size_t from) const {
    const auto uses = uses_.find(reg);
    if (uses == uses_.end()) return kNever;
    const auto next = std::lower_bound(uses->second.begin(), uses->second.end(), from);
    return next == uses->second.end() ? kNever : *next;
  }
  size_t NextUse(int32_t reg, size_t after) const { return UseFrom(reg, after + 1); }

  bool IsBlock(int32_t reg) const {
    return static_cast<size_t>(reg) >= regs_.size() || regs_[static_cast<size_t>(reg)].block;
  }

  Where WhereIs(int32_t reg) const {
    if (reg != 0 && reg == in_a_) return Where::kA;
    if (reg != 0 && reg == in_b_) return Where::kB;
    if (slots_.count(reg) != 0) return Where::kSlot;
    return IsBlock(reg) ? Where::kBlock : Where::kOne;
  }

  // What a step names as an operand in memory.
  int32_t NameOf(int32_t reg) {
    if (const auto slot = slots_.find(reg); slot != slots_.end()) return slot->second;
    const auto listed = [reg](const std::vector<int32_t>& list) {
      return std::find(list.begin(), list.end(), reg) != list.end();
    };
    strip_.last.clear();
    if (!listed(strip_.writes) && !listed(strip_.reads)) strip_.reads.push_back(reg);
    return reg;
  }

  void Move(StepMove move, DType type, int32_t name) {
    const StepFn past =
        move == StepMove::kStore ? ops_.find_move(StepMove::kNonTemporal, type) : StepFn();
    strip_.steps.push_back({ops_.find_move(move, type), past, name, 0});
  }

  void FreeSlot(int32_t reg) {
    free_.insert(slots_.at(reg));
    slots_.erase(reg);
  }

  // Unless it is in memory already. Outputs are not read again: they may have bypassed the caches.
  void Save(StepMove move, int32_t reg) {
    const bool stored = inside_.count(reg) == 0 && outputs_.count(reg) == 0;
    if (stored || slots_.count(reg) != 0) return;
    if (free_.empty()) free_.insert(-static_cast<int32_t>(++num_slots_));
    slots_[reg] = *free_.rbegin();
    free_.erase(slots_[reg]);
    Move(move, DType::kF32, slots_[reg]);
  }

  // A is about to be overwritten; its value is needed from instruction `from` on. `b_is_used`: B
  // must stay.
  void Leave(size_t from, bool b_is_used) {
    const size_t next = UseFrom(in_a_, from), next_b = UseFrom(in_b_, from);
    if (in_a_ == 0 || in_a_ == in_b_ || next == kNever) return;
    if (b_is_used || next_b < next) return Save(StepMove::kSave, in_a_);
    if (next_b != kNever) Save(StepMove::kSaveKept, in_b_);
    Move(StepMove::kKeep, DType::kF32, 0);
    in_b_ = in_a_;
  }

  bool UsesB(size_t i) const {
    const Operands operands = OperandsAt(i);
    return in_b_ != 0 && std::find(operands.begin(), operands.end(), in_b_) != operands.end();
  }

  // The step that takes the operands where they are, if there is one.
  StripStep StepOf(size_t i, std::array<std::pair<Where, int32_t>, 3>& at) const {
    const Operands operands = OperandsAt(i);
    for (size_t k = 0; k < operands.size(); ++k) at[k] = {WhereIs(operands[k]), operands[k]};
    if (insns_[i].step == StepOp::kFma && at[1].first < at[0].first) std::swap(at[0], at[1]);
    StripStep step;
    step.fn = ops_.find_step(insns_[i].step, insns_[i].from, at[0].first, at[1].first, at[2].first);
    return step;
  }

  // The operand to bring into A: what is in B, or the first block.
  size_t Chosen(const Insn& insn, const Operands& operands) const {
    size_t chosen = 0;
    for (size_t k = 1; k < operands.size() && insn.step != StepOp::kSelect; ++k) {
      const int32_t old = operands[chosen];
      const bool block = operands[k] != 0 && IsBlock(operands[k]) && !IsBlock(old);
      if (old != in_b_ && operands[k] != 0 && (block || operands[k] == in_b_)) chosen = k;
    }
    return chosen;
  }

  void Enter(size_t i) {
    const Insn& insn = insns_[i];
    const size_t chosen = Chosen(insn, OperandsAt(i));
    const int32_t reg = OperandsAt(i)[chosen];
    Leave(i, UsesB(i));
    const DType type = TypeOf(insn, chosen);
    switch (WhereIs(reg)) {
      case Where::kB:
        Move(StepMove::kTake, type, 0);
        break;
      case Where::kSlot:
        Move(StepMove::kLoadSlot, type, NameOf(reg));
        break;
      default:
        Move(IsBlock(reg) ? StepMove::kLoad : StepMove::kLoadOne, type, NameOf(reg));
    }
    in_a_ = reg;
  }

  void Operation(size_t i) {
    std::array<std::pair<Where, int32_t>, 3> at = {};
    if (StepOf(i, at).fn.wide == nullptr) Enter(i);
    Leave(i + 1, UsesB(i));
    StripStep step = StepOf(i, at);
    for (const auto& [where, reg] : at) {
      if (reg != 0 && InMemory(where)) (step.x == 0 ? step.x : step.y) = NameOf(reg);
    }
    if (insns_[i].step != StepOp::kSame) strip_.steps.push_back(step);
    in_a_ = insns_[i].dst;
  }

  const OpTable& ops_;
  const std::vector<Register>& regs_;
  const std::vector<Insn>& insns_;
  Strip strip_;
  const std::set<int32_t>& outputs_;             // registers that are results of the kernel
  std::set<int32_t> inside_;                     // results that nothing but the strip needs
  std::map<int32_t, std::vector<size_t>> uses_;  // by register, ascending
  std::map<int32_t, int32_t> slots_;             // by register
  std::set<int32_t> free_;                       // slots
  size_t num_slots_ = 0;
  int32_t in_a_ = 0, in_b_ = 0;
};

}  // namespace

std::vector<int32_t> OperandsOf(const Insn& insn, const std::vector<Read>& reads,
                                const Pass& pass) {
  if (insn.kind == Insn::Kind::kStrip) return pass.strips[static_cast<size_t>(insn.ref)].reads;
  std::vector<int32_t> operands;
  for (const int32_t reg : {insn.a, insn.b, insn.c}) {
    if (reg != 0) operands.push_back(reg);
  }
  if (insn.kind == Insn::Kind::kRead) {
    for (const Axis& axis : reads[static_cast<size_t>(insn.ref)].axes) {
      if (axis.load != 0) operands.push_back(axis.load);
    }
  }
  return operands;
}

void FormStrips(const OpTable& ops, const std::vector<Read>& reads,
                const std::vector<Register>& regs, const std::set<int32_t>& wanted,
                std::vector<Insn>& list, Pass& pass) {
  std::set<int32_t> missing;  // registers of the list that no instruction in `out` makes
  for (const Insn& insn : list) missing.insert(insn.dst);
  std::set<int32_t> outputs;
  for (const Sink& sink : pass.sinks) {
    if (sink.kind == Sink::Kind::kOutput) outputs.insert(sink.reg);
  }
  std::vector<Insn> out, left = std::move(list);
  // Takes from `left` all steps, or all that are none, that can run after `out`; steps up to the
  // most of a strip.
  const auto take = [&](bool steps) {
    std::vector<Insn> taken, rest;
    for (Insn& insn : left) {
      const std::vector<int32_t> operands = OperandsOf(insn, reads, pass);
      const bool ready = std::none_of(operands.begin(), operands.end(),
                                      [&](int32_t reg) { return missing.count(reg) != 0; });
      const bool fits = !steps || taken.size() < kMaxOperations;
      if (IsStep(insn) == steps && ready && fits) {
        missing.erase(insn.dst);
        taken.push_back(insn);
      } else {
        rest.push_back(insn);
      }
    }
    left = std::move(rest);
    return taken;
  };
  while (!left.empty()) {
    for (const Insn& insn : take(/*steps=*/false)) out.push_back(insn);
    const std::vector<Insn> steps = take(/*steps=*/true);
    if (steps.empty()) continue;
    if (steps.size() == 1 && StandsAlone(steps[0], regs) && wanted.count(steps[0].dst) == 0) {
      out.push_back(steps[0]);
      continue;
    }
    std::set<int32_t> needed = wanted;
    for (const Insn& insn : left) {
      for (const int32_t reg : OperandsOf(insn, reads, pass)) needed.insert(reg);
    }
    Insn strip;
    strip.kind = Insn::Kind::kStrip;
    strip.ref = static_cast<int32_t>(pass.strips.size());
    const std::vector<Insn> ordered = StripOrder(steps, needed, regs.size()).Make();
    StripWriter writer(ops, regs, ordered, needed, outputs);
    pass.strips.push_back(writer.Write());
    pass.strips.back().first = pass.num_steps;
    pass.num_steps += pass.strips.back().steps.size();
    pass.num_slots = std::max(pass.num_slots, writer.num_slots());
    out.push_back(strip);
  }
  list = std::move(out);
}

}  // namespace kiln::vm
