// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "tests/compiler/bound_programs.h"
#include "tests/compiler/draw.h"
#include "tests/fusion/typed_graph.h"

namespace kiln {
namespace {

// Text: bodies stand before the nodes that own them.
class ControlMaker {
 public:
  explicit ControlMaker(uint64_t seed) : draw_(seed) {}

  absl::StatusOr<BoundProgram> Run() {
    BoundProgram made;
    made.kind = "control";
    const std::vector<int64_t> extents = {1 + draw_.Below(6), 1 + draw_.Below(5)};
    shape_ = draw_.OneIn(2) ? absl::StrCat("[n, ", extents[1], "]")
                            : absl::StrCat("[", absl::StrJoin(extents, ", "), "]");
    text_ = "graph control\ninput c : bool []\ninput m : i64 []\n";
    made.inputs = {FilledTensor(DType::kBool, {}, static_cast<double>(draw_.Below(2))),
                   FilledTensor(DType::kI64, {}, static_cast<double>(draw_.Below(4)))};
    for (int64_t i = 0, count = 2 + draw_.Below(3); i < count; ++i) {
      values_.push_back(absl::StrCat("x", i));
      absl::StrAppend(&text_, "input ", values_.back(), " : f32 ", shape_, "\n");
      made.inputs.push_back(TypedNoise(DType::kF32, extents, draw_.bits()));
    }
    absl::StrAppend(&text_, "flipped : bool [] = not(c)\ndoubled : i64 [] = add(m, m)\n",
                    "half : i64 [] = sub(doubled, m)\n");
    for (int64_t steps = 2 + draw_.Below(7); steps > 0; --steps) Step();
    AddOutputs();
    KILN_ASSIGN_OR_RETURN(made.graph, ParseGraph(text_));
    return made;
  }

 private:
  const std::string& Any() { return draw_.OneIn(2) ? draw_.Of(values_) : values_.back(); }
  std::string Name() { return absl::StrCat("v", names_++); }
  std::string Element(const std::vector<std::string>& of) {
    if (draw_.OneIn(3))
      return absl::StrCat(draw_.Pick({"neg", "relu", "abs"}), "(", draw_.Of(of), ")");
    const char* op = draw_.Pick({"add", "sub", "mul", "max", "min"});
    return absl::StrCat(op, "(", draw_.Of(of), ", ", draw_.Of(of), ")");
  }
  static std::string Line(const std::vector<std::string>& made, const std::string& node) {
    return absl::StrCat(absl::StrJoin(made, ", "), " = ", node, "\n");
  }
  std::string Extents(size_t count) const {
    const std::string inner = shape_.substr(1, shape_.size() - 2);
    return absl::StrCat("[", absl::StrJoin(std::vector<std::string>(count, inner), ", "), "]");
  }

  // A body that takes `states` states behind `ports` and gives `results` behind `first`, some of
  // them inputs of it as they are.
  std::string Body(const std::string& name, const std::string& ports, const std::string& first,
                   size_t states, size_t results, bool nest) {
    std::string text = absl::StrCat("body ", name, "\n", ports);
    std::vector<std::string> known;
    for (size_t k = 0; k < states; ++k) {
      known.push_back(absl::StrCat("s", k));
      absl::StrAppend(&text, "input ", known.back(), " : f32 ", shape_, "\n");
    }
    for (int64_t steps = draw_.Below(4); steps > 0; --steps) {
      const std::string made = Name();
      text += Line({made}, Element(known));
      known.push_back(made);
    }
    if (nest) {
      const std::string made = Name();
      const std::vector<std::string> operands = {draw_.Of(known), draw_.Of(known)};
      text += Branches(made, 1) + Line({made}, IfNode(first, made, operands, 1));
      known.push_back(made);
    }
    if (!first.empty()) absl::StrAppend(&text, "output ", first, "\n");
    for (size_t k = 0; k < results; ++k)
      absl::StrAppend(&text, "output o", k, " = ", draw_.Of(known), "\n");
    return text + "end\n";
  }
  // Two bodies of two states each.
  std::string Branches(const std::string& name, size_t results) {
    std::string text = Body(name + "a", "", "", 2, results, false);
    return text += Body(name + "b", "", "", 2, results, false);
  }
  std::string IfNode(const std::string& condition, const std::string& name,
                     const std::vector<std::string>& operands, size_t results) const {
    return absl::StrCat("if(", condition, ", ", absl::StrJoin(operands, ", "),
                        ") {else_branch = ", name, "b, extents = ", Extents(results),
                        ", then_branch = ", name, "a}");
  }

  void Step() {
    std::vector<std::string> made = {Name()};
    switch (draw_.Below(8)) {
      case 0:
      case 1:
        text_ += Line(made, Element(values_));
        break;
      case 2: {
        if (draw_.OneIn(2)) made.push_back(Name());
        const std::string condition = draw_.Pick({"c", "flipped"});
        const std::vector<std::string> operands = {Any(), Any()};
        text_ += Branches(made[0], made.size()) +
                 Line(made, IfNode(condition, made[0], operands, made.size()));
        break;
      }
      case 3:
        text_ += Line(made, absl::StrCat("softmax(", Any(), ") {axis = ", draw_.Below(2), "}"));
        break;
      case 4:
        return Found(made[0]);
      default:
        Loop(made);
        break;
    }
    values_.insert(values_.end(), made.begin(), made.end());
  }

  // Carries one or two states, reads another, and may stack a result of its iterations.
  void Loop(std::vector<std::string>& made) {
    if (draw_.OneIn(2)) made.push_back(Name());
    const size_t carried = made.size();
    const bool stacks = draw_.OneIn(3);
    const std::string body = made[0] + "l";
    text_ += Body(body, "input i : i64 []\ninput go : bool []\n", "go", carried + 1,
                  carried + (stacks ? 1 : 0), draw_.OneIn(3));
    std::vector<std::string> operands = {draw_.Pick({"m", "doubled", "half"}),
                                         draw_.Pick({"_", "c"})};
    for (size_t k = 0; k <= carried; ++k) operands.push_back(Any());
    std::vector<std::string> results = made;
    std::string extents = Extents(carried);
    if (stacks) {
      results.push_back(Name());
      others_.push_back(results.back());
      extents.pop_back();
      absl::StrAppend(&extents, ", t", results.back(), ", ", Extents(1).substr(1));
    }
    text_ += Line(results, absl::StrCat("loop(", absl::StrJoin(operands, ", "), ") {body = ", body,
                                        ", carried = ", carried, ", extents = ", extents, "}"));
  }

  // Elements that are not 0, as many as there are.
  void Found(const std::string& name) {
    const std::string count = absl::StrCat("k", name);
    absl::StrAppend(&text_, name, "f = reshape(", Any(), ") {shape = [-1]}\n");
    absl::StrAppend(&text_, name, "p = relu(", name, "f)\n");
    absl::StrAppend(&text_, name, "z : i64 [1, ", count, "] = nonzero(", name, "p) {extents = [1, ",
                    count, "]}\n");
    absl::StrAppend(&text_, name, "i = reshape(", name, "z) {shape = [-1]}\n");
    absl::StrAppend(&text_, name, " : f32 [", count, "] = gather(", name, "f, ", name,
                    "i) {axis = 0}\n");
    others_.push_back(name);
  }

  void AddOutputs() {
    std::vector<std::string> from = {values_.back(), draw_.Of(values_)};
    for (int64_t i = draw_.Below(3); i > 0; --i) from.push_back(draw_.Of(values_));
    if (!others_.empty() && draw_.OneIn(2)) from.push_back(draw_.Of(others_));
    for (const char* small : {"flipped", "doubled", "half"}) {
      if (draw_.OneIn(4)) from.emplace_back(small);
    }
    for (size_t i = 0; i < from.size(); ++i)
      absl::StrAppend(&text_, "output y", i, " = ", from[i], "\n");
  }

  Draw draw_;
  std::string shape_, text_;
  int names_ = 0;
  std::vector<std::string> values_, others_;  // of the common shape; of others
};

}  // namespace

absl::StatusOr<BoundProgram> MakeControlProgram(uint64_t seed) { return ControlMaker(seed).Run(); }

}  // namespace kiln
