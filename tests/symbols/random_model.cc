// SPDX-License-Identifier: Apache-2.0
#include "tests/symbols/random_model.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/onnx/model_writer.h"

namespace kiln::symbols {
namespace {

constexpr int64_t kMostElements = 4000;
constexpr long double kMostFloat = 1 << 20;

class Maker {
 public:
  Maker(uint64_t seed, bool text) : state_(seed * 0x9E3779B97F4A7C15u + 1), text_(text) {}

  RandomModel Run() {
    AddInputs();
    AddShapes();
    const int64_t ints = 2 + Below(6), moves = 1 + Below(5);
    for (int64_t i = 0; i < ints; ++i) AddIntNode();
    for (int64_t i = 0; i < moves; ++i) {
      const size_t before = data_.size();
      for (int tries = 0; tries < 8 && data_.size() == before; ++tries) AddMove();
      if (Below(3) == 0) AddIntNode();
    }
    Finish();
    return std::move(made_);
  }

 private:
  struct Known {
    std::string name;
    int type = kFloat;
    Array at[kSizes];  // meaningless where the size has failed
    const Ints& shape(size_t k) const { return at[k].shape; }
  };

  // splitmix64: the standard's distributions differ between libraries.
  uint64_t Draw() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(Draw() % static_cast<uint64_t>(n)); }
  bool Chance(int64_t percent) { return Below(100) < percent; }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int64_t>(from.size())))];
  }

  // ---- inputs
  void AddInputs() {
    const std::vector<std::string> names = {"a", "b", "c"};
    std::map<std::string, int64_t> sizes[kSizes];
    for (size_t k = 0; k < kSizes; ++k) {
      for (const std::string& name : names)
        sizes[k][name] = k == 0   ? 3 + Below(6)
                         : k == 1 ? Below(3)
                                  : Pick<int64_t>({0, 1, 1, 2, 3, 4, 5, 7, 9});
    }
    const int64_t count = 1 + Below(3);
    std::map<std::string, int> seen;
    for (int64_t i = 0; i < count; ++i) {
      ModelInput input{absl::StrCat("x", i), {}};
      const int64_t rank = 1 + Below(3);
      std::vector<std::string> of;  // what gives the extent its size
      for (int64_t axis = 0; axis < rank; ++axis) {
        ModelDim dim;
        std::string size;
        if (Chance(20)) {
          dim.number = 1 + Below(4);
        } else if (Chance(12) && !text_) {  // without a name
          dim.name = Pick<std::string>({"", "?", "None", "unk__7"});
          size = absl::StrCat("fresh", i, "_", axis);
        } else {
          size = dim.name = Pick(names);
        }
        of.push_back(size);
        input.dims.push_back(dim);
      }
      for (size_t k = 0; k < kSizes; ++k) {
        Ints shape;
        for (size_t axis = 0; axis < of.size(); ++axis) {
          if (of[axis].empty()) {
            shape.push_back(input.dims[axis].number);
            continue;
          }
          if (sizes[k].count(of[axis]) == 0) sizes[k][of[axis]] = Below(7);
          shape.push_back(sizes[k][of[axis]]);
        }
        made_.shapes[k].push_back(shape);
      }
      made_.model.inputs.push_back(std::move(input));
    }
    // Inputs that share a name may disagree about it.
    if (!text_ && count > 1 && Chance(12)) {
      for (const ModelDim& dim : made_.model.inputs[1].dims) ++seen[dim.name];
      int64_t& extent = made_.shapes[4][1][0];
      if (made_.model.inputs[1].dims[0].number < 0) extent = extent + 1 + Below(2);
    }
    for (size_t i = 0; i < made_.model.inputs.size(); ++i) {
      Known known{made_.model.inputs[i].name, kFloat, {}};
      for (size_t k = 0; k < kSizes; ++k) {
        Array& array = known.at[k];
        array = {kFloat, made_.shapes[k][i], {}};
        for (int64_t e = 0; e < CountOf(array.shape); ++e)
          array.elements.push_back(static_cast<long double>(1 + e + 100 * static_cast<int64_t>(i)));
        made_.inputs[k][known.name] = array;
      }
      data_.push_back(std::move(known));
    }
  }

  // ---- nodes
  std::string NewName(const char* stem) { return absl::StrCat(stem, ++names_); }

  const Known* Constant(Array array) {
    Known known{NewName("k"), array.type, {}};
    for (Array& at : known.at) at = array;
    made_.model.constants[known.name] = std::move(array);
    constants_.push_back(std::make_unique<Known>(std::move(known)));
    return constants_.back().get();
  }
  const Known* Number(int64_t value) { return Constant({kInt64, {}, {(long double)value}}); }
  const Known* List(const Ints& values) {
    return Constant({kInt64,
                     {static_cast<int64_t>(values.size())},
                     std::vector<long double>(values.begin(), values.end())});
  }

  // Whether the arrays are worth going on with.
  static bool IsFine(const Array& array) {
    if (CountOf(array.shape) > kMostElements) return false;
    for (const long double element : array.elements) {
      if (array.type == kFloat && std::abs(element) > kMostFloat) return false;
      if (array.type == kInt32 && std::abs(element) > 0x1p31L) return false;
    }
    return array.shape.size() <= 5;
  }

  // Adds a node if enough sizes have a result; its outputs, else none.
  std::vector<const Known*> Add(const std::string& op, const std::vector<const Known*>& inputs,
                                std::map<std::string, Ints> attrs = {}, int outputs = 1) {
    ModelNode node{op, {}, {}, std::move(attrs)};
    for (const Known* input : inputs) node.inputs.push_back(input != nullptr ? input->name : "");
    for (int k = 0; k < outputs; ++k) node.outputs.push_back(NewName("v"));
    std::vector<Known> made(static_cast<size_t>(outputs));
    bool failed[kSizes];
    int good = 0;
    for (size_t k = 0; k < kSizes; ++k) {
      failed[k] = failed_[k];
      if (failed[k]) continue;
      std::vector<const Array*> in;
      for (const Known* input : inputs) in.push_back(input != nullptr ? &input->at[k] : nullptr);
      Evaluated result = Evaluate(node, in);
      failed[k] = result.outcome != Outcome::kValue;
      if (failed[k]) continue;
      ++good;
      for (size_t i = 0; i < made.size(); ++i) {
        if (!IsFine(result.arrays[i])) return {};
        made[i].at[k] = result.arrays[i];
      }
    }
    const int before = static_cast<int>(std::count(failed_, failed_ + kSizes, false));
    if (good < 2 || (good < before && !Chance(40))) return {};
    // Ranks must not depend on extents.
    std::optional<size_t> rank;
    for (size_t k = 0; k < kSizes; ++k) {
      if (failed[k]) continue;
      if (rank && *rank != made[0].at[k].shape.size()) return {};
      rank = made[0].at[k].shape.size();
      for (size_t i = 0; i < made.size(); ++i) made[i].type = made[i].at[k].type;
    }
    std::copy(failed, failed + kSizes, failed_);
    for (size_t i = 0; i < made.size(); ++i) made[i].name = node.outputs[i];
    made_.model.nodes.push_back(std::move(node));
    std::vector<const Known*> out;
    for (Known& known : made) {
      values_.push_back(std::make_unique<Known>(std::move(known)));
      out.push_back(values_.back().get());
    }
    return out;
  }

  const Known* AddOne(const std::string& op, const std::vector<const Known*>& inputs,
                      std::map<std::string, Ints> attrs = {}) {
    for (const Known* input : inputs) {
      if (input == nullptr && op != "Slice" && op != "Pad") return nullptr;
    }
    const auto out = Add(op, inputs, std::move(attrs));
    return out.empty() ? nullptr : out[0];
  }

  // A size that is still right.
  size_t Good() const {
    for (size_t k = 0; k < kSizes; ++k) {
      if (!failed_[k]) return k;
    }
    return 0;
  }
  size_t Rank(const Known& x) const { return x.shape(Good()).size(); }
  int64_t Length(const Known& x) const { return x.shape(Good()).empty() ? 1 : x.shape(Good())[0]; }

  // ---- shape arithmetic
  void Keep(const Known* value) {
    if (value != nullptr) ints_.push_back(value);
  }

  void AddShapes() {
    for (const Known& x : data_) {
      const Known* shape = AddOne("Shape", {&x});
      if (shape == nullptr) continue;
      shapes_.push_back(shape);
      for (int i = 0; i < 2; ++i) Keep(Extent(shape));
    }
  }

  // One extent of a shape, [] or [1].
  const Known* Extent(const Known* shape) {
    const int64_t rank = Length(*shape);
    if (rank == 0) return Number(1);
    const int64_t at = Below(rank) - (Chance(20) ? rank : 0);
    if (Chance(60))
      return AddOne("Gather", {shape, Chance(50) ? Number(at) : List({at})}, {{"axis", {0}}});
    return AddOne("Slice", {shape, List({at}), List({at == -1 ? INT64_MAX : at + 1}), List({0})});
  }

  int64_t SmallConstant() { return Pick<int64_t>({-3, -2, -1, 0, 1, 1, 2, 2, 3, 4, 5, 8}); }

  const Known* AnyInt() {
    if (ints_.empty() || Chance(15))
      return Chance(50) ? Number(SmallConstant()) : List({SmallConstant()});
    return Pick(ints_);
  }
  const Known* AsList(const Known* x) {
    return x == nullptr || Rank(*x) == 1 ? x : AddOne("Unsqueeze", {x, List({0})});
  }
  const Known* AsNumber(const Known* x) {
    return x == nullptr || Rank(*x) == 0 ? x : AddOne("Squeeze", {x, List({0})});
  }

  void AddIntNode() {
    switch (Below(13)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return Keep(AddOne(
            Pick<std::string>({"Add", "Sub", "Sub", "Mul", "Div", "Div", "Mod", "Min", "Max"}),
            {AnyInt(), AnyInt()}));
      case 5:
      case 6:
        return Keep(AddOne(Pick<std::string>({"Neg", "Neg", "Abs"}), {AnyInt()}));
      case 7: {
        const Known* narrow = AddOne("Cast", {AnyInt()}, {{"to", {kInt32}}});
        if (narrow == nullptr) return;
        const Known* other = Constant({kInt32, {}, {(long double)SmallConstant()}});
        const Known* sum = AddOne(Pick<std::string>({"Add", "Mul", "Sub"}), {narrow, other});
        return Keep(AddOne("Cast", {sum != nullptr ? sum : narrow}, {{"to", {kInt64}}}));
      }
      case 8: {
        const Known *a = AnyInt(), *b = AnyInt();
        const Known* holds = AddOne(Pick<std::string>({"Less", "Greater", "Equal"}), {a, b});
        return Keep(AddOne("Where", {holds, AnyInt(), AnyInt()}));
      }
      case 9:
        return Keep(Chance(50) ? AsList(AnyInt()) : AsNumber(AnyInt()));
      case 10: {
        const Known* shape = Pick(shapes_);
        if (text_) return Keep(AddOne("Size", {&data_[0]}));
        return Keep(AddOne(Pick<std::string>({"ReduceProd", "ReduceSum"}), {shape},
                           {{"keepdims", {Below(2)}}}));
      }
      case 11: {
        if (text_) return Keep(Extent(Pick(shapes_)));
        // As exporters scale extents: in floats.
        const Known* real = AddOne("Cast", {AnyInt()}, {{"to", {kFloat}}});
        const Known* factor = Constant({kFloat, {}, {Pick<long double>({0.5, 2, 0.25, 1.5})}});
        const Known* scaled = AddOne("Mul", {real, factor});
        const Known* whole = AddOne(Chance(50) ? "Floor" : "Ceil", {scaled});
        return Keep(AddOne("Cast", {whole}, {{"to", {kInt64}}}));
      }
      default:
        return Keep(Extent(Pick(shapes_)));
    }
  }

  // A list of `count` numbers, each a constant from `numbers` or computed.
  const Known* ListOf(size_t count, const Ints& numbers, int64_t computed) {
    std::vector<const Known*> parts;
    Ints run;
    for (size_t i = 0; i < count; ++i) {
      if (ints_.empty() || !Chance(computed)) {
        run.push_back(Pick(numbers));
        continue;
      }
      if (!run.empty()) parts.push_back(List(run));
      run.clear();
      parts.push_back(AsList(Pick(ints_)));
      if (parts.back() == nullptr || Length(*parts.back()) != 1) return nullptr;
    }
    if (!run.empty() || parts.empty()) parts.push_back(List(run));
    if (parts.size() == 1) return parts[0];
    return AddOne("Concat", parts, {{"axis", {0}}});
  }

  // ---- data
  void KeepData(const Known* value) {
    if (value == nullptr) return;
    if (value->type == kInt64) value = AddOne("Cast", {value}, {{"to", {kFloat}}});
    if (value == nullptr) return;
    data_.push_back(*value);
    if (Chance(35)) {
      const Known* shape = AddOne("Shape", {value});
      if (shape != nullptr && Length(*shape) > 0) shapes_.push_back(shape);
    }
  }

  Known AnyData() { return Chance(60) ? data_.back() : Pick(data_); }

  void AddMove() {
    const Known x = AnyData();
    switch (Below(text_ ? 14 : 17)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return MakeSlice(x);
      case 4:
        return KeepData(AddOne("Pad", {&x, ListOf(2 * Rank(x), {0, 0, 1, 2, -1, -2}, 30)}));
      case 5:
      case 6:
        return MakeReshape(x);
      case 7:
        return KeepData(AddOne(
            "Expand", {&x, ListOf(Rank(x) + static_cast<size_t>(Below(2)), {1, 1, 2, 3}, 40)}));
      case 8:
        return MakeRange();
      case 9:
        return MakeSplit(x);
      case 10:
        return MakeArrangement(x);
      case 11: {
        const Known y = Pick(data_);
        return KeepData(AddOne(Pick<std::string>({"Add", "Sub", "Max", "Min"}), {&x, &y}));
      }
      case 12: {
        if (Rank(x) == 0) return;
        const Known y = Chance(40) ? x : Pick(data_);
        return KeepData(
            AddOne("Concat", {&x, &y}, {{"axis", {Below(static_cast<int64_t>(Rank(x)))}}}));
      }
      case 13:
        return MakeGather(x);
      case 14:
        return KeepData(AddOne("Tile", {&x, ListOf(Rank(x), {1, 1, 2, 3, 0}, 30)}));
      case 15:
        return KeepData(AddOne("ConstantOfShape",
                               {ListOf(static_cast<size_t>(1 + Below(3)), {1, 2, 3, 0}, 60)},
                               {{"value", {1 + Below(9)}}}));
      default: {
        if (Rank(x) == 0) return;
        return KeepData(AddOne("ReduceSum", {&x, List({Below(static_cast<int64_t>(Rank(x)))})},
                               {{"keepdims", {Below(2)}}}));
      }
    }
  }

  void MakeSlice(const Known& x) {
    const size_t rank = Rank(x);
    if (rank == 0) return;
    const size_t count =
        Chance(75) ? 1 : static_cast<size_t>(1 + Below(static_cast<int64_t>(rank)));
    const int64_t first = Below(static_cast<int64_t>(rank - count + 1));
    Ints axes, steps;
    for (size_t i = 0; i < count; ++i) {
      axes.push_back(first + static_cast<int64_t>(i) -
                     (Chance(20) ? static_cast<int64_t>(rank) : 0));
      steps.push_back(
          Pick<int64_t>({1, 1, 1, 1, 2, 3, -1, -1, -2, INT64_MAX, -INT64_MAX, INT64_MIN}));
    }
    const Ints bounds = {0, 0, 1, 2, -1, -2, -3, 5, -100, 100, INT64_MAX, INT64_MIN, INT32_MAX};
    const Known* starts = ListOf(count, bounds, 55);
    const Known* ends = ListOf(count, bounds, 55);
    if (starts == nullptr || ends == nullptr) return;
    std::vector<const Known*> inputs = {&x, starts, ends, List(axes)};
    // A slice of graph text has numbers as steps; what becomes of others is the importer's matter.
    if (Chance(40))
      inputs.push_back(Chance(90) || text_ ? List(steps) : ListOf(count, {1, -1}, 60));
    if (inputs.back() == nullptr) return;
    KeepData(AddOne("Slice", inputs));
  }

  void MakeReshape(const Known& x) {
    const size_t rank = Rank(x);
    const Known* target = nullptr;
    switch (Below(5)) {
      case 0:
        target = List({-1});
        break;
      case 1:
        target = ListOf(rank, {0, 0, -1, 1}, 20);
        break;
      case 2: {  // its own extents, two of them joined
        const Known* shape = AddOne("Shape", {&x});
        if (shape == nullptr || rank < 2) return;
        const Known* kept =
            AddOne("Slice", {shape, List({0}), List({static_cast<int64_t>(rank) - 2}), List({0})});
        const Known* last =
            AddOne("Gather", {shape, List({static_cast<int64_t>(rank) - 1})}, {{"axis", {0}}});
        const Known* before =
            AddOne("Gather", {shape, List({static_cast<int64_t>(rank) - 2})}, {{"axis", {0}}});
        const Known* product = Chance(50) ? AddOne("Mul", {last, before}) : List({-1});
        if (kept == nullptr || product == nullptr) return;
        target = AddOne("Concat", {kept, product}, {{"axis", {0}}});
        break;
      }
      case 3:
        target = ListOf(1 + static_cast<size_t>(Below(3)), {-1, 1, 2, 0}, 50);
        break;
      default: {
        const Known* computed = AsList(AnyInt());
        const Known* rest = List({-1});
        if (computed == nullptr) return;
        target = Chance(50) ? AddOne("Concat", {computed, rest}, {{"axis", {0}}})
                            : AddOne("Concat", {rest, computed}, {{"axis", {0}}});
      }
    }
    if (target == nullptr) return;
    std::map<std::string, Ints> attrs;
    if (Chance(20)) attrs["allowzero"] = {1};
    KeepData(AddOne("Reshape", {&x, target}, attrs));
  }

  void MakeRange() {
    const Known* start = AsNumber(Chance(50) ? Number(SmallConstant()) : AnyInt());
    const Known* limit = AsNumber(AnyInt());
    const Known* step =
        AsNumber(Chance(75) ? Number(Pick<int64_t>({1, 1, 2, -1, -2, 3})) : AnyInt());
    if (Chance(25) && !text_) {
      start = AddOne("Cast", {start}, {{"to", {kFloat}}});
      limit = AddOne("Cast", {limit}, {{"to", {kFloat}}});
      step = AddOne("Cast", {step}, {{"to", {kFloat}}});
    }
    KeepData(AddOne("Range", {start, limit, step}));
  }

  void MakeSplit(const Known& x) {
    if (Rank(x) == 0) return;
    const int64_t axis = Below(static_cast<int64_t>(Rank(x)));
    std::vector<const Known*> out;
    if (Chance(35)) {
      const int64_t parts = 2 + Below(2);
      out =
          Add("Split", {&x}, {{"axis", {axis}}, {"num_outputs", {parts}}}, static_cast<int>(parts));
    } else {
      const Known* shape = AddOne("Shape", {&x});
      if (shape == nullptr) return;
      const Known* extent = AddOne("Gather", {shape, List({axis})}, {{"axis", {0}}});
      const Known* first = AsList(AnyInt());
      const Known* rest = AddOne("Sub", {extent, first});
      if (rest == nullptr || Length(*first) != 1) return;
      const Known* sizes = AddOne("Concat", {first, rest}, {{"axis", {0}}});
      if (sizes != nullptr) out = Add("Split", {&x, sizes}, {{"axis", {axis}}}, 2);
    }
    for (const Known* part : out) KeepData(part);
  }

  void MakeArrangement(const Known& x) {
    const auto rank = static_cast<int64_t>(Rank(x));
    switch (Below(4)) {
      case 0: {
        Ints perm;
        for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
        for (int64_t i = rank; i-- > 1;)
          std::swap(perm[static_cast<size_t>(i)], perm[static_cast<size_t>(Below(i + 1))]);
        return KeepData(AddOne("Transpose", {&x}, {{"perm", perm}}));
      }
      case 1:
        return KeepData(AddOne("Unsqueeze", {&x, List({Below(rank + 1)})}));
      case 2:
        if (rank == 0) return;
        return KeepData(AddOne("Squeeze", {&x, List({Below(rank)})}));
      default:
        if (rank == 0) return;
        return KeepData(AddOne("Flatten", {&x}, {{"axis", {Below(rank + 1)}}}));
    }
  }

  // Elements of an axis: backwards, every second, or one that shapes choose.
  void MakeGather(const Known& x) {
    if (Rank(x) == 0) return;
    const int64_t axis = Below(static_cast<int64_t>(Rank(x)));
    if (Chance(40)) return KeepData(AddOne("Gather", {&x, AnyInt()}, {{"axis", {axis}}}));
    const Known* shape = AddOne("Shape", {&x});
    if (shape == nullptr) return;
    const Known* extent = AddOne("Gather", {shape, Number(axis)}, {{"axis", {0}}});
    const Known* last = AddOne("Sub", {extent, Number(1)});
    const Known* places = Chance(50) ? AddOne("Range", {last, Number(-1), Number(-1)})
                                     : AddOne("Range", {Number(0), extent, Number(2)});
    if (places != nullptr) KeepData(AddOne("Gather", {&x, places}, {{"axis", {axis}}}));
  }

  // Outputs: what nothing else uses, the last ones, and a number or two.
  void Finish() {
    std::set<std::string> used;
    for (const ModelNode& node : made_.model.nodes)
      used.insert(node.inputs.begin(), node.inputs.end());
    std::vector<const Known*> outputs;
    for (size_t i = data_.size(); i-- > made_.model.inputs.size() && outputs.size() < 3;) {
      if (used.count(data_[i].name) == 0 || outputs.empty()) outputs.push_back(&data_[i]);
    }
    for (size_t i = ints_.size(); i-- > 0 && outputs.size() < 4;) {
      if (outputs.empty() || (used.count(ints_[i]->name) == 0 && ints_[i]->name[0] == 'v'))
        outputs.push_back(ints_[i]);
    }
    for (const Known* output : outputs) {
      if (output->name[0] != 'v') continue;
      const std::vector<std::string>& have = made_.model.outputs;
      if (std::find(have.begin(), have.end(), output->name) != have.end()) continue;
      made_.model.outputs.push_back(output->name);
      made_.model.output_types[output->name] = output->type;
    }
    for (size_t k = 0; k < kSizes; ++k) made_.expected[k] = Evaluate(made_.model, made_.inputs[k]);
  }

  uint64_t state_;
  const bool text_;
  int names_ = 0;
  RandomModel made_;
  bool failed_[kSizes] = {};
  std::vector<std::unique_ptr<Known>> values_, constants_;
  std::vector<const Known*> ints_, shapes_;
  std::vector<Known> data_;
};

}  // namespace

RandomModel MakeRandomModel(uint64_t seed, bool text) { return Maker(seed, text).Run(); }

}  // namespace kiln::symbols
