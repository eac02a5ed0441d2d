// SPDX-License-Identifier: Apache-2.0
#include "tests/symbols/maker.h"

namespace kiln::symbols {
namespace {

// Gathers the nodes of a branch or body.
class BodyMaker {
 public:
  explicit BodyMaker(std::string stem) : stem_(std::move(stem)) {}

  std::string Input(const std::string& name, int type) {
    ModelInput input{stem_ + name, {}};
    input.type = type;
    body_.inputs.push_back(input);
    return input.name;
  }
  std::string Op(const std::string& op, std::vector<std::string> inputs,
                 std::map<std::string, Ints> attrs = {}) {
    ModelNode node{op, std::move(inputs), {stem_ + std::to_string(++names_)}, std::move(attrs)};
    body_.nodes.push_back(node);
    return node.outputs[0];
  }
  std::string Constant(Array array) {
    const std::string name = stem_ + "k" + std::to_string(++names_);
    body_.constants[name] = std::move(array);
    return name;
  }
  void Output(const std::string& name, int type) {
    body_.outputs.push_back(name);
    body_.output_types[name] = type;
  }
  std::shared_ptr<const Model> Take() { return std::make_shared<const Model>(std::move(body_)); }

 private:
  std::string stem_;
  Model body_;
  int names_ = 0;
};

Array Ones(const Ints& values) {
  return {kInt64,
          {static_cast<int64_t>(values.size())},
          std::vector<long double>(values.begin(), values.end())};
}

}  // namespace

// A comparison of numbers that shapes decide; of one element, with none to two axes.
const Known* Maker::AnyCondition() {
  const Known* holds =
      AddOne(Pick<std::string>({"Less", "Greater", "Equal"}), {AnyInt(), AnyInt()});
  if (holds == nullptr || Length(*holds) != 1) return nullptr;
  if (Rank(*holds) == 1 && Chance(40)) return AddOne("Unsqueeze", {holds, List({0})});
  return holds;
}

void Maker::MakeIf(const Known& x) {
  const Known* condition = AnyCondition();
  if (condition == nullptr) return;
  const Known y = Pick(data_);
  const Known* bound = AsList(AnyInt());
  if (bound == nullptr) return;
  ModelNode node{"If", {}, {}};
  const int kind = static_cast<int>(Below(7));
  for (const char* branch : {"then_branch", "else_branch"}) {
    BodyMaker b(NewName("b"));
    std::string result;
    switch (Chance(60) ? kind : static_cast<int>(Below(7))) {
      case 0:
        result = b.Op("Add", {x.name, y.name});
        break;
      case 1:
        result = b.Op("Neg", {x.name});
        break;
      case 2:
        result = b.Op("Reshape", {x.name, b.Constant(Ones({-1}))});
        break;
      case 3:
        if (Rank(x) == 0 || Rank(y) != Rank(x)) return;
        result = b.Op("Concat", {x.name, Chance(50) ? x.name : y.name}, {{"axis", {0}}});
        break;
      case 4:
        if (Rank(x) == 0) return;
        result = b.Op("Slice", {x.name, b.Constant(Ones({Pick<int64_t>({0, 1, -2})})), bound->name,
                                b.Constant(Ones({0}))});
        break;
      case 5:
        result = b.Op("Identity", {y.name});
        break;
      default:
        result = b.Op("Unsqueeze", {x.name, b.Constant(Ones({0}))});
    }
    b.Output(result, kFloat);
    node.bodies[branch] = b.Take();
  }
  const auto out = Add(std::move(node), {condition}, 1);
  if (!out.empty()) KeepData(out[0]);
}

void Maker::MakeLoop(const Known& x) {
  const Known* trips = AddOne("Min", {AnyInt(), Number(Pick<int64_t>({1, 3, 5}))});
  const Known* condition = Chance(60) ? nullptr : AnyCondition();
  const Known y = Pick(data_);
  // The rank of what is carried stays.
  if (trips == nullptr || Length(*trips) != 1 || Rank(x) == 0 || Rank(y) > Rank(x)) return;
  BodyMaker b(NewName("b"));
  const std::string iteration = b.Input("iteration", kInt64), on = b.Input("on", kBool);
  const std::string state = b.Input("state", kFloat);
  std::string next;
  bool grows = false;
  switch (Below(5)) {
    case 0:
      next = b.Op("Add", {state, y.name});
      break;
    case 1:
      next = b.Op("Concat", {state, Chance(50) ? x.name : y.name}, {{"axis", {0}}});
      grows = true;
      break;
    case 2:
      next = b.Op("Slice", {state, b.Constant(Ones({1})), b.Constant(Ones({INT64_MAX})),
                            b.Constant(Ones({0}))});
      grows = true;
      break;
    case 3:
      next = b.Op("Neg", {state});
      break;
    default:
      next = b.Op("Slice",
                  {state, b.Constant(Ones({0})),
                   b.Op("Unsqueeze", {iteration, b.Constant(Ones({0}))}), b.Constant(Ones({0}))});
      grows = true;
  }
  const std::string goes_on =
      Chance(70) ? b.Op("Identity", {on})
                 : b.Op("Less", {iteration, b.Constant({kInt64, {}, {(long double)Below(4)}})});
  b.Output(goes_on, kBool);
  b.Output(next, kFloat);
  const bool stacks = Chance(60);
  if (stacks) {
    const std::string left =
        grows ? b.Op("ReduceSum", {next}, {{"keepdims", {0}}})
              : b.Op("Add", {next, b.Op("Cast", {iteration}, {{"to", {kFloat}}})});
    b.Output(left, kFloat);
  }
  ModelNode node{"Loop", {}, {}};
  node.bodies["body"] = b.Take();
  for (const Known* out : Add(std::move(node), {trips, condition, &x}, stacks ? 2 : 1))
    KeepData(out);
}

void Maker::MakeScan(const Known& x) {
  if (Rank(x) == 0) return;
  const int64_t axis = Below(static_cast<int64_t>(Rank(x)));
  const Known y = Chance(40) ? x : Pick(data_);
  const bool two = Rank(y) == Rank(x) && Chance(40);
  // What is carried has the shape of a slice, or is a number.
  const bool number = Chance(40);
  const Known* first = number ? Constant({kFloat, {}, {0}})
                              : AddOne("ReduceSum", {&x, List({axis})}, {{"keepdims", {0}}});
  if (first == nullptr) return;
  BodyMaker b(NewName("b"));
  const std::string state = b.Input("state", kFloat), slice = b.Input("slice", kFloat);
  const std::string other = two ? b.Input("other", kFloat) : slice;
  const std::string sum = number ? b.Op("ReduceSum", {slice}, {{"keepdims", {0}}}) : slice;
  const std::string next = b.Op(Pick<std::string>({"Add", "Sub", "Max"}), {state, sum});
  b.Output(next, kFloat);
  b.Output(Chance(50) ? b.Op("Neg", {other}) : b.Op("Add", {next, other}), kFloat);
  ModelNode node{"Scan", {}, {}, {{"num_scan_inputs", {two ? 2 : 1}}}};
  node.attrs["scan_input_axes"] = two ? Ints{axis, axis} : Ints{axis};
  const int64_t backwards = Chance(30) ? 1 : 0;
  node.attrs["scan_input_directions"] = two ? Ints{backwards, 0} : Ints{backwards};
  node.bodies["body"] = b.Take();
  std::vector<const Known*> inputs = {first, &x};
  if (two) inputs.push_back(&y);
  for (const Known* out : Add(std::move(node), inputs, 2)) KeepData(out);
}

}  // namespace kiln::symbols
