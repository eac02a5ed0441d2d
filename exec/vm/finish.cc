// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/vm/finish.h"

#include <cstring>
#include <map>
#include <set>
#include <utility>

namespace kiln::vm {
namespace {

constexpr size_t kSlotBytes = 64;  // a register of one element: room for one whole vector

class Finisher {
 public:
  Finisher(const OpTable& ops, const std::vector<Read>& reads, const std::vector<Register>& regs,
           const std::function<int32_t(int32_t)>& block, Pass& pass)
      : ops_(ops), reads_(reads), regs_(regs), block_(block), pass_(pass) {}

  void Finish() {
    FuseHorner();
    FusePairs();
    DropUnused();
    Allocate();
  }

 private:
  const Register& Reg(int32_t r) const { return regs_[static_cast<size_t>(r)]; }

  std::map<int32_t, int> UsesInBody() const {
    std::map<int32_t, int> uses;
    for (const Insn& insn : pass_.body) {
      for (const int32_t r : {insn.a, insn.b, insn.c, insn.d}) ++uses[r];
      if (insn.kind != Insn::Kind::kRead) continue;
      for (const Axis& axis : reads_[static_cast<size_t>(insn.ref)].axes) ++uses[axis.load];
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
      insn.c = block_(start);
      insn.imm = chain.k.size();
      pass_.tables.push_back(std::make_unique<std::vector<float>>(chain.k));
      insn.table = pass_.tables.back()->data();
      chains[insn.dst] = std::move(chain);
    }
    Drop(dead);
  }

  // An operation whose result only the next one needs is one instruction with it: what is between
  // stays in a processor register.
  void FusePairs() {
    const std::map<int32_t, int> uses = UsesInBody();
    std::map<int32_t, size_t> makers;  // by register
    std::set<size_t> dead;
    for (size_t i = 0; i < pass_.body.size(); ++i) {
      Insn& insn = pass_.body[i];
      if (insn.kind != Insn::Kind::kOp || insn.op == ScalarOp::kConst) continue;
      bool fused = false;
      for (const bool second : {false, true}) {
        const auto inner = makers.find(second ? insn.b : insn.a);
        if (fused || inner == makers.end() || uses.at(inner->first) != 1) continue;
        const Insn& before = pass_.body[inner->second];
        const OpFn fn = ops_.find_pair(before.op, insn.op, second);
        if (fn == nullptr) continue;
        const bool uniform = (insn.uniform & (second ? 1 : 2)) != 0;
        insn.c = second ? insn.a : insn.b;
        insn.a = before.a;
        insn.b = before.b;
        insn.fn = fn;
        insn.imm = before.uniform | (uniform ? 4u : 0u);
        dead.insert(inner->second);
        fused = true;
      }
      if (!fused) makers[insn.dst] = i;
    }
    Drop(dead);
  }

  void Drop(const std::set<size_t>& dead) {
    std::vector<Insn> kept;
    for (size_t i = 0; i < pass_.body.size(); ++i) {
      if (dead.count(i) == 0) kept.push_back(pass_.body[i]);
    }
    pass_.body = std::move(kept);
  }

  void DropUnused() {
    std::set<int32_t> used;
    for (const Sink& sink : pass_.sinks) used.insert(sink.reg);
    for (std::vector<Insn>* list : {&pass_.body, &pass_.inner, &pass_.row, &pass_.once}) {
      std::vector<Insn> kept;
      for (auto insn = list->rbegin(); insn != list->rend(); ++insn) {
        if (used.count(insn->dst) == 0) continue;
        used.insert({insn->a, insn->b, insn->c, insn->d});
        if (insn->kind == Insn::Kind::kRead) {
          for (const Axis& axis : reads_[static_cast<size_t>(insn->ref)].axes)
            used.insert(axis.load);
        }
        kept.push_back(*insn);
      }
      list->assign(kept.rbegin(), kept.rend());
    }
  }

  size_t BlockBytes(size_t size) const {
    return static_cast<size_t>(pass_.block) * size + kSlotBytes;
  }

  // Registers of the body share memory once their last reader has run; those of other lists keep
  // theirs.
  void Allocate() {
    pass_.reg_offset.assign(regs_.size(), 0);
    const auto place = [this](int32_t reg, size_t bytes) {
      pass_.reg_offset[static_cast<size_t>(reg)] = pass_.frame_bytes;
      pass_.frame_bytes += (bytes + kSlotBytes - 1) / kSlotBytes * kSlotBytes;
    };
    for (const std::vector<Insn>* list : {&pass_.once, &pass_.row, &pass_.inner}) {
      for (const Insn& insn : *list)
        place(insn.dst, Reg(insn.dst).block ? BlockBytes(insn.size) : kSlotBytes);
    }
    std::map<int32_t, int> left = UsesInBody();
    std::multimap<size_t, size_t> free;  // element size -> offset
    for (const Insn& insn : pass_.body) {
      std::vector<int32_t> args = {insn.a, insn.b, insn.c, insn.d};
      if (insn.kind == Insn::Kind::kRead) {
        for (const Axis& axis : reads_[static_cast<size_t>(insn.ref)].axes)
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

  const OpTable& ops_;
  const std::vector<Read>& reads_;
  const std::vector<Register>& regs_;
  const std::function<int32_t(int32_t)>& block_;
  Pass& pass_;
};

}  // namespace

void FinishLists(const OpTable& ops, const std::vector<Read>& reads,
                 const std::vector<Register>& regs, const std::function<int32_t(int32_t)>& block,
                 Pass& pass) {
  Finisher(ops, reads, regs, block, pass).Finish();
}

}  // namespace kiln::vm
