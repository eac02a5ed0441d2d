// SPDX-License-Identifier: Apache-2.0
#include "exec/alias_classes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

using Space = PlacementProblem::Space;
using Access = PlacementProblem::Access;
using Step = PlacementProblem::Step;

constexpr int64_t kNoLaunch = std::numeric_limits<int64_t>::max();

// A view whose output is not all of its buffer.
bool IsPart(const PlacementProblem& p, const Step& step) {
  if (!step.view) return false;
  const Access& to = step.writes[0];
  return to.end - to.begin < p.buffers[static_cast<size_t>(to.buffer)].bytes;
}

// Per buffer, whether it is a whole of parts: nothing else writes it, they lie apart, and nothing
// reads it before all are there.
std::vector<bool> FindWholes(const PlacementProblem& p) {
  struct Use {
    std::vector<std::pair<int64_t, int64_t>> parts;
    size_t last_part = 0, first_read = std::numeric_limits<size_t>::max();
    bool other = false;
  };
  std::vector<Use> uses(p.buffers.size());
  const auto use = [&](const Access& access) -> Use& {
    return uses[static_cast<size_t>(access.buffer)];
  };
  for (size_t t = 0; t < p.steps.size(); ++t) {
    const Step& step = p.steps[t];
    for (const Access& read : step.reads) use(read).first_read = std::min(use(read).first_read, t);
    for (const Access& write : step.writes) {
      use(write).other |= !IsPart(p, step);
      use(write).parts.emplace_back(write.begin, write.end);
      use(write).last_part = t;
    }
  }
  for (const PlacementProblem::Fixed& fixed : p.fixed)
    uses[static_cast<size_t>(fixed.buffer)].other = uses[static_cast<size_t>(fixed.of)].other =
        true;
  std::vector<bool> wholes;
  for (Use& u : uses) {
    std::sort(u.parts.begin(), u.parts.end());
    bool apart = !u.other && u.first_read > u.last_part;
    for (size_t i = 1; i < u.parts.size(); ++i) apart &= u.parts[i - 1].second <= u.parts[i].first;
    wholes.push_back(apart);
  }
  return wholes;
}

class Former {
 public:
  Former(const PlacementProblem& problem, const std::vector<bool>& second, bool in_place)
      : p_(problem),
        second_(second),
        works_in_place_(in_place),
        n_(problem.buffers.size()),
        nodes_(n_),
        wholes_(FindWholes(problem)),
        alone_(problem.steps.size()) {
    for (const PlacementProblem::Repeat& repeat : p_.repeats)
      if (repeat.begin + 1 == repeat.end) alone_[repeat.begin] = true;
    for (size_t i = 0; i < n_; ++i) nodes_[i].parent = static_cast<int32_t>(i);
  }

  absl::StatusOr<AliasClasses> Form() {
    made_.copies.assign(p_.steps.size(), false);
    granted_.resize(p_.steps.size());
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      const auto now = static_cast<int64_t>(t);
      for (const Access& a : p_.steps[t].reads) Touch(a.buffer, now);
      for (const Access& a : p_.steps[t].writes) {
        Touch(a.buffer, now);
        if (!p_.steps[t].view) node(a.buffer).written = now;
      }
    }
    for (const PlacementProblem::Fixed& fixed : p_.fixed) KILN_RETURN_IF_ERROR(AddFixed(fixed));
    for (const PlacementProblem::Repeat& repeat : p_.repeats) Extend(repeat);
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      if (IsPart(p_, p_.steps[t])) {
        AddPart(t);
      } else if (p_.steps[t].view) {
        KILN_RETURN_IF_ERROR(AddView(t));
      } else if (works_in_place_ && !alone_[t]) {
        AddInPlace(t);
      }
    }
    KILN_RETURN_IF_ERROR(CheckAccesses());
    for (size_t b = 0; b < n_; ++b) {
      made_.places.push_back(Find(static_cast<int32_t>(b)));
      made_.lives.push_back({nodes_[b].first, nodes_[b].last});
    }
    return std::move(made_);
  }

 private:
  // A tree per class; first, last are those of the class at its root.
  struct Node {
    int32_t parent = 0;
    int64_t offset = 0;  // in the parent
    int64_t first = kNoLaunch, last = -1;
    int64_t written = -1;  // by a launch, last
  };

  Node& node(int32_t b) { return nodes_[static_cast<size_t>(b)]; }
  Space space(int32_t b) const { return p_.buffers[static_cast<size_t>(b)].space; }
  bool OnOneDevice(int32_t a, int32_t b) const {
    return p_.buffers[static_cast<size_t>(a)].device == p_.buffers[static_cast<size_t>(b)].device;
  }
  int64_t bytes(int32_t b) const { return p_.buffers[static_cast<size_t>(b)].bytes; }

  void Touch(int32_t b, int64_t t) {
    node(b).first = std::min(node(b).first, t);
    node(b).last = std::max(node(b).last, t);
  }

  // Over all of the repeated steps, where one of them and a step outside touch the buffer or, of a
  // whole that is read here, a part that was written there.
  void Extend(const PlacementProblem::Repeat& repeat) {
    const auto begin = static_cast<int64_t>(repeat.begin),
               last = static_cast<int64_t>(repeat.end) - 1;
    for (size_t b = 0; b < n_; ++b) {
      Node& n = nodes_[b];
      if (!IsRoot(static_cast<int32_t>(b))) continue;
      const bool outside =
          n.first < begin || n.last > last || p_.buffers[b].space != Space::kTemporary;
      if (!outside || n.first > last || n.last < begin) continue;
      n.first = std::min(n.first, begin);
      n.last = std::max(n.last, last);
    }
  }

  // The root of b's class and b's offset in it. Halves the path, so that long chains of views stay
  // cheap.
  Placement::Place Find(int32_t b) {
    int64_t offset = 0;
    while (node(b).parent != b) {
      Node& n = node(b);
      const Node& up = node(n.parent);
      if (up.parent != n.parent) {
        n.offset += up.offset;
        n.parent = up.parent;
      }
      offset += n.offset;
      b = n.parent;
    }
    return {b, offset};
  }

  bool IsRoot(int32_t b) { return node(b).parent == b; }

  // The class of root `child` joins that of `parent`.
  void Link(int32_t child, int32_t parent, int64_t offset) {
    node(child).parent = parent;
    node(child).offset = offset;
    Node& root = node(Find(parent).root);
    root.first = std::min(root.first, node(child).first);
    root.last = std::max(root.last, node(child).last);
    root.written = std::max(root.written, node(child).written);
  }

  absl::Status AddFixed(const PlacementProblem::Fixed& f) {
    const bool fits =
        f.offset >= 0 && f.offset <= bytes(f.of) && bytes(f.buffer) <= bytes(f.of) - f.offset;
    if (space(f.buffer) != Space::kTemporary || !IsRoot(f.buffer) || Find(f.of).root == f.buffer ||
        !OnOneDevice(f.buffer, f.of) || !fits) {
      return Invalid("buffer ", f.buffer, " (", bytes(f.buffer), " bytes) cannot lie at byte ",
                     f.offset, " of buffer ", f.of, " (", bytes(f.of), " bytes)");
    }
    Link(f.buffer, f.of, f.offset);
    return absl::OkStatus();
  }

  absl::Status AddView(size_t t) {
    const Access &from = p_.steps[t].reads[0], &to = p_.steps[t].writes[0];
    if (bytes(to.buffer) > bytes(from.buffer) - from.begin) {
      return Invalid("step ", t, ": the view needs ", bytes(to.buffer), " bytes; buffer ",
                     from.buffer, " has ", bytes(from.buffer) - from.begin);
    }
    const Placement::Place source = Find(from.buffer);
    const bool of_part = bytes(to.buffer) < bytes(from.buffer);
    if (of_part && second_[t]) {
      made_.copies[t] = to.begin < to.end;
      return absl::OkStatus();
    }
    if (of_part) made_.choices.push_back({t, from.buffer});
    const bool fresh = IsRoot(to.buffer) && node(to.buffer).first == static_cast<int64_t>(t) &&
                       source.root != to.buffer && OnOneDevice(from.buffer, to.buffer);
    if (fresh && space(to.buffer) == Space::kTemporary) {
      Link(to.buffer, from.buffer, from.begin);
    } else if (fresh && space(to.buffer) == Space::kOutput &&
               space(source.root) == Space::kTemporary && source.offset + from.begin == 0 &&
               bytes(source.root) <= bytes(to.buffer)) {
      Link(source.root, to.buffer, 0);
    } else if (bytes(to.buffer) > 0) {
      made_.copies[t] = true;
    }
    return absl::OkStatus();
  }

  // What makes the part writes it in the whole, if the part is all that lies in its memory and
  // nothing writes it later.
  void AddPart(size_t t) {
    const Access &from = p_.steps[t].reads[0], &to = p_.steps[t].writes[0];
    if (to.begin == to.end) return;
    const Placement::Place source = Find(from.buffer);
    const bool fits = wholes_[static_cast<size_t>(to.buffer)] && IsRoot(to.buffer) &&
                      space(source.root) == Space::kTemporary && source.root != to.buffer &&
                      OnOneDevice(source.root, to.buffer) && source.offset + from.begin == 0 &&
                      bytes(source.root) == to.end - to.begin &&
                      node(source.root).written < static_cast<int64_t>(t);
    if (fits) made_.choices.push_back({t, to.buffer});
    if (fits && !second_[t]) {
      Link(source.root, to.buffer, to.begin);
    } else {
      made_.copies[t] = true;
    }
  }

  // Whether the step reads an input last that it may overwrite, other than `read`.
  bool MayBeDonated(size_t t, int32_t read, int32_t write) {
    const Step& step = p_.steps[t];
    return std::any_of(step.in_place.begin(), step.in_place.end(), [&](const auto& pair) {
      const Access &from = step.reads[static_cast<size_t>(pair.first)],
                   &to = step.writes[static_cast<size_t>(write)];
      if (pair.first == read || pair.second != write || !Alike(from, to)) return false;
      const Placement::Place source = Find(from.buffer);
      return space(source.root) == Space::kInput && source.offset == 0 && from.begin == 0 &&
             bytes(source.root) == bytes(to.buffer) &&
             node(source.root).last == static_cast<int64_t>(t) &&
             !TouchedByOthers(step, source.root, pair.first);
    });
  }

  static bool Alike(const Access& from, const Access& to) {
    return from.dense && to.dense && from.item == to.item && to.begin == 0 && to.end > 0 &&
           from.end - from.begin == to.end;
  }

  bool TouchedByOthers(const Step& step, int32_t root, int32_t read) {
    for (size_t i = 0; i < step.reads.size(); ++i) {
      if (static_cast<int32_t>(i) != read && Find(step.reads[i].buffer).root == root) return true;
    }
    return std::any_of(step.writes.begin(), step.writes.end(),
                       [&](const Access& a) { return Find(a.buffer).root == root; });
  }

  void AddInPlace(size_t t) {
    const Step& step = p_.steps[t];
    for (const auto& [read, write] : step.in_place) {
      const Access &from = step.reads[static_cast<size_t>(read)],
                   &to = step.writes[static_cast<size_t>(write)];
      const Placement::Place source = Find(from.buffer), target = Find(to.buffer);
      const auto now = static_cast<int64_t>(t);
      if (!Alike(from, to) || !OnOneDevice(from.buffer, to.buffer) ||
          node(source.root).last != now || node(target.root).first != now ||
          TouchedByOthers(step, source.root, read)) {
        continue;
      }
      if (space(source.root) != Space::kTemporary) continue;
      if (IsRoot(to.buffer) && space(to.buffer) == Space::kTemporary) {
        if (bytes(to.buffer) > bytes(from.buffer) - from.begin) continue;
        Link(to.buffer, from.buffer, from.begin);
      } else if (space(target.root) == Space::kOutput || space(target.root) == Space::kTemporary) {
        if (source.offset + from.begin != 0 || bytes(source.root) > bytes(to.buffer)) continue;
        if (space(target.root) == Space::kOutput && MayBeDonated(t, read, write)) {
          made_.choices.push_back({t, -1 - static_cast<int64_t>(t)});
          if (!second_[t]) continue;
        }
        Link(source.root, to.buffer, 0);
      } else {
        continue;
      }
      granted_[t].emplace_back(read, write);
    }
  }

  struct Range {
    int32_t root;
    int64_t begin, end;
  };
  Range RangeOf(const Access& a) {
    const Placement::Place place = Find(a.buffer);
    return {place.root, place.offset + a.begin, place.offset + a.end};
  }

  bool Clash(const Access& a, const Access& b) {
    const Range x = RangeOf(a), y = RangeOf(b);
    // Two strided operands may interleave, as parts of a concat along its last axis do.
    return (a.dense || b.dense) && x.root == y.root && x.begin < y.end && y.begin < x.end;
  }

  absl::Status CheckStep(size_t t) {
    const Step& step = p_.steps[t];
    for (size_t w = 0; w < step.writes.size(); ++w) {
      const Access& write = step.writes[w];
      const Space target = space(Find(write.buffer).root);
      if (target == Space::kInput || target == Space::kConstant) {
        return Invalid("step ", t, ": writes buffer ", write.buffer,
                       ", which lies in an input or constant");
      }
      for (size_t r = 0; r < step.reads.size(); ++r) {
        const std::pair<int32_t, int32_t> pair(r, w);
        const bool granted =
            std::find(granted_[t].begin(), granted_[t].end(), pair) != granted_[t].end();
        if (!granted && Clash(step.reads[r], write)) {
          return Invalid("step ", t, ": reads buffer ", step.reads[r].buffer,
                         " where it writes buffer ", write.buffer);
        }
      }
      for (size_t other = 0; other < w; ++other) {
        if (Clash(step.writes[other], write)) {
          return Invalid("step ", t, ": writes buffers ", step.writes[other].buffer, " and ",
                         write.buffer, " in the same place");
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckAccesses() {
    std::vector<bool> written(n_, false);
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      const Step& step = p_.steps[t];
      for (const Access& read : step.reads) {
        const int32_t root = Find(read.buffer).root;
        const bool made_here = space(root) == Space::kTemporary || space(root) == Space::kOutput;
        if (made_here && !written[static_cast<size_t>(root)] && read.end > read.begin) {
          return Invalid("step ", t, ": reads buffer ", read.buffer, " before anything wrote it");
        }
      }
      if (!step.view || made_.copies[t]) KILN_RETURN_IF_ERROR(CheckStep(t));
      for (const Access& write : step.writes)
        written[static_cast<size_t>(Find(write.buffer).root)] = true;
    }
    for (size_t b = 0; b < n_; ++b) {
      const int32_t root = Find(static_cast<int32_t>(b)).root;
      if (p_.buffers[b].space == Space::kOutput && p_.buffers[b].bytes > 0 &&
          !written[static_cast<size_t>(root)]) {
        return Invalid("nothing writes buffer ", b, ", an output");
      }
    }
    return absl::OkStatus();
  }

  const PlacementProblem& p_;
  const std::vector<bool>& second_;
  const bool works_in_place_;
  const size_t n_;
  std::vector<Node> nodes_;
  const std::vector<bool> wholes_;
  // Per step, whether it is repeated by itself: then its operands are there for all parts, and no
  // part may write what is read as a whole.
  std::vector<bool> alone_;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> granted_;  // per step
  AliasClasses made_;
};

}  // namespace

absl::StatusOr<AliasClasses> FormClasses(const PlacementProblem& problem,
                                         const std::vector<bool>& second, bool in_place) {
  return Former(problem, second, in_place).Form();
}

}  // namespace kiln
