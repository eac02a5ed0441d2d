// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/finish.h"

#include <map>
#include <set>

#include "exec/vm/strips.h"

namespace kiln::vm {
namespace {

// A register of one element: room for one whole vector.
constexpr size_t kOneBytes = 64;  // correctness

constexpr size_t kFrameBytes = size_t{16} << 10;  // correctness: of longer blocks

class Finisher {
 public:
  Finisher(const OpTable& ops, const std::vector<Read>& reads, const std::vector<Register>& regs,
           Pass& pass)
      : ops_(ops), reads_(reads), regs_(regs), pass_(pass) {}

  void Finish() {
    DropUnused();
    pass_.operations = pass_.body.size();
    std::set<int32_t> wanted;
    for (const Sink& sink : pass_.sinks) wanted.insert(sink.reg);
    FormStrips(ops_, reads_, regs_, wanted, pass_.body, pass_);
    for (const Insn& insn : pass_.body) {
      const std::vector<int32_t> operands = OperandsOf(insn, reads_, pass_);
      wanted.insert(operands.begin(), operands.end());
    }
    FormStrips(ops_, reads_, regs_, wanted, pass_.inner, pass_);
    MarkDirect();
    MarkMoving();
    MarkNonTemporal();
    ChooseBlock();
    Allocate();
  }

 private:
  const Register& Reg(int32_t r) const { return regs_[static_cast<size_t>(r)]; }

  const Strip& StripOf(const Insn& insn) const {
    return pass_.strips[static_cast<size_t>(insn.ref)];
  }

  std::map<int32_t, int> UsesInBody() const {
    std::map<int32_t, int> uses;
    for (const Insn& insn : pass_.body) {
      for (const int32_t reg : OperandsOf(insn, reads_, pass_)) ++uses[reg];
    }
    for (const Sink& sink : pass_.sinks) ++uses[sink.reg];
    return uses;
  }

  // A temporary may be written by the instruction that makes it. An output that lies over an input
  // may only by what comes last: what is read after it could be that input.
  void MarkDirect() {
    std::set<int32_t> taken, made, last;
    for (const Insn& insn : pass_.body) {
      const bool strip = insn.kind == Insn::Kind::kStrip, at_end = &insn == &pass_.body.back();
      if (strip) {
        made.insert(StripOf(insn).writes.begin(), StripOf(insn).writes.end());
        if (at_end) last.insert(StripOf(insn).last.begin(), StripOf(insn).last.end());
      } else if (insn.kind == Insn::Kind::kOp) {
        made.insert(insn.dst);
        if (at_end) last.insert(insn.dst);
      }
    }
    for (Sink& sink : pass_.sinks) {
      if (!sink.IsStored()) continue;
      sink.direct_apart = made.count(sink.reg) != 0 && taken.insert(sink.reg).second;
      sink.direct =
          sink.direct_apart && (sink.kind == Sink::Kind::kTemp || last.count(sink.reg) != 0);
    }
  }

  // Registers that may lie in operands.
  void MarkMoving() {
    std::set<int32_t> moving;
    for (const std::vector<Insn>* list :
         {&pass_.once, &pass_.row, &pass_.each, &pass_.inner, &pass_.body}) {
      for (const Insn& insn : *list) {
        if (insn.kind == Insn::Kind::kRead) moving.insert(insn.dst);
      }
    }
    for (const Sink& sink : pass_.sinks) {
      if (sink.direct_apart) moving.insert(sink.reg);
    }
    for (Strip& strip : pass_.strips) {
      for (size_t s = 0; s < strip.steps.size(); ++s) {
        if (moving.count(strip.steps[s].x) != 0 || moving.count(strip.steps[s].y) != 0)
          strip.moving.push_back(s);
      }
    }
  }

  // Only what nothing reads again may be written around the caches: outputs.
  void MarkNonTemporal() {
    std::map<int32_t, int> uses = UsesInBody();
    for (const Strip& strip : pass_.strips) {
      for (const StripStep& step : strip.steps) {
        if (step.past.wide == nullptr) ++uses[step.x], ++uses[step.y];
      }
    }
    std::set<int32_t> streamed;
    for (const Sink& sink : pass_.sinks) {
      if (sink.kind == Sink::Kind::kOutput && sink.direct_apart && uses[sink.reg] == 1)
        streamed.insert(sink.reg);
    }
    for (Strip& strip : pass_.strips) {
      for (StripStep& step : strip.steps) {
        if (streamed.count(step.x) == 0) step.past = StepFn();
      }
    }
  }

  void DropUnused() {
    std::set<int32_t> used;
    for (const Sink& sink : pass_.sinks) used.insert(sink.reg);
    for (std::vector<Insn>* list :
         {&pass_.body, &pass_.inner, &pass_.each, &pass_.row, &pass_.once}) {
      std::vector<Insn> kept;
      for (auto insn = list->rbegin(); insn != list->rend(); ++insn) {
        if (used.count(insn->dst) == 0) continue;
        const std::vector<int32_t> operands = OperandsOf(*insn, reads_, pass_);
        used.insert(operands.begin(), operands.end());
        kept.push_back(*insn);
      }
      list->assign(kept.rbegin(), kept.rend());
    }
  }

  bool StaysInPlace(const Insn& read) const {
    return !reads_[static_cast<size_t>(read.ref)].guarded &&
           OperandsOf(read, reads_, pass_).empty();
  }

  // Longer blocks where few registers of a block lie in the frame: not operands, which mostly stay
  // where they are, nor results that are written to their places.
  void ChooseBlock() {
    if (pass_.shape == Pass::Shape::kSequence) return;
    const int64_t most = pass_.block == kBlock ? kMostBlock : kMostWideBlock;
    std::set<int32_t> direct;
    for (const Sink& sink : pass_.sinks) {
      if (sink.direct) direct.insert(sink.reg);
    }
    size_t bytes = 1;  // of all registers for one element
    for (const std::vector<Insn>* list :
         {&pass_.once, &pass_.row, &pass_.each, &pass_.inner, &pass_.body}) {
      for (const Insn& insn : *list) {
        if (insn.kind == Insn::Kind::kRead && StaysInPlace(insn)) continue;
        for (const int32_t reg : ResultsOf(insn))
          bytes += Reg(reg).block && direct.count(reg) == 0 ? Reg(reg).size : 0;
      }
    }
    while (pass_.block < most && 2 * static_cast<size_t>(pass_.block) * bytes <= kFrameBytes)
      pass_.block *= 2;
  }

  size_t BlockBytes(size_t size) const {
    return static_cast<size_t>(pass_.block) * size + kOneBytes;
  }

  void Place(int32_t reg, size_t bytes) {
    pass_.reg_offset[static_cast<size_t>(reg)] = pass_.frame_bytes;
    pass_.frame_bytes += (bytes + kOneBytes - 1) / kOneBytes * kOneBytes;
  }

  std::vector<int32_t> ResultsOf(const Insn& insn) const {
    return insn.kind == Insn::Kind::kStrip ? StripOf(insn).writes : std::vector<int32_t>{insn.dst};
  }

  // Registers of the body share memory once their last reader has run; those of other lists keep
  // theirs.
  void Allocate() {
    pass_.reg_offset.assign(regs_.size(), 0);
    for (const std::vector<Insn>* list : {&pass_.once, &pass_.row, &pass_.each, &pass_.inner}) {
      for (const Insn& insn : *list) {
        for (const int32_t reg : ResultsOf(insn))
          Place(reg, Reg(reg).block ? BlockBytes(Reg(reg).size) : kOneBytes);
      }
    }
    std::map<int32_t, int> left = UsesInBody();
    std::multimap<size_t, size_t> free;  // element size -> offset
    const auto release = [&](int32_t reg) {
      free.emplace(Reg(reg).size, pass_.reg_offset[static_cast<size_t>(reg)]);
    };
    for (const Insn& insn : pass_.body) {
      // The result may lie over an operand of an operation when their elements have one size.
      const std::vector<int32_t> operands = OperandsOf(insn, reads_, pass_);
      const auto release_operands = [&](bool before) {
        for (const int32_t reg : operands) {
          const bool same = insn.kind == Insn::Kind::kOp && Reg(reg).size == Reg(insn.dst).size;
          if (Reg(reg).level == kBody && same == before && --left[reg] == 0) release(reg);
        }
      };
      release_operands(/*before=*/true);
      for (const int32_t reg : ResultsOf(insn)) {
        if (const auto it = free.find(Reg(reg).size); it != free.end()) {
          pass_.reg_offset[static_cast<size_t>(reg)] = it->second;
          free.erase(it);
        } else {
          Place(reg, BlockBytes(Reg(reg).size));
        }
      }
      release_operands(/*before=*/false);
      for (const int32_t reg : ResultsOf(insn)) {
        if (left[reg] == 0) release(reg);  // needed within the strip only
      }
    }
  }

  const OpTable& ops_;
  const std::vector<Read>& reads_;
  const std::vector<Register>& regs_;
  Pass& pass_;
};

}  // namespace

void FinishLists(const OpTable& ops, const std::vector<Read>& reads,
                 const std::vector<Register>& regs, Pass& pass) {
  Finisher(ops, reads, regs, pass).Finish();
}

}  // namespace kiln::vm
