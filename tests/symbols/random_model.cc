// SPDX-License-Identifier: Apache-2.0
#include "tests/symbols/random_model.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/symbols/maker.h"

namespace kiln::symbols {
namespace {

constexpr int64_t kMostElements = 4000;
constexpr long double kMostFloat = 1 << 20;

}  // namespace

RandomModel Maker::Run() {
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

// ---- inputs
void Maker::AddInputs() {
  const std::vector<std::string> names = {"a", "b", "c"};
  std::map<std::string, int64_t> sizes[kSizes];
  for (size_t k = 0; k < kSizes; ++k) {
    for (const std::string& name : names)
      sizes[k][name] = k == 0   ? 3 + Below(6)
                       : k == 1 ? Below(3)
                                : Pick<int64_t>({0, 1, 1, 2, 3, 4, 5, 7, 9});
  }
  const int64_t count = 1 + Below(3);
  for (int64_t i = 0; i < count; ++i) {
    ModelInput input{absl::StrCat("x", i), {}};
    const int64_t rank = 1 + Below(text_ ? 3 : 4);
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
      made_.inputs[k][known.name] = scope_[k][known.name] = array;
    }
    data_.push_back(std::move(known));
  }
}

const Known* Maker::Constant(Array array) {
  Known known{NewName("k"), array.type, {}};
  for (size_t k = 0; k < kSizes; ++k) scope_[k][known.name] = known.at[k] = array;
  made_.model.constants[known.name] = std::move(array);
  constants_.push_back(std::make_unique<Known>(std::move(known)));
  return constants_.back().get();
}

bool Maker::IsFine(const Array& array) {
  if (CountOf(array.shape) > kMostElements) return false;
  for (const long double element : array.elements) {
    if (array.type == kFloat && std::abs(element) > kMostFloat) return false;
    if (array.type == kInt32 && std::abs(element) > 0x1p31L) return false;
  }
  return array.shape.size() <= 5;
}

// Adds a node if enough sizes have a result; its outputs, else none.
std::vector<const Known*> Maker::Add(const std::string& op, const std::vector<const Known*>& inputs,
                                     std::map<std::string, Ints> attrs, int outputs) {
  return Add(ModelNode{op, {}, {}, std::move(attrs)}, inputs, outputs);
}

std::vector<const Known*> Maker::Add(ModelNode node, const std::vector<const Known*>& inputs,
                                     int outputs) {
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
    Evaluated result = Evaluate(node, in, scope_[k]);
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
  if (!HaveRanks(made, failed)) return {};
  std::copy(failed, failed + kSizes, failed_);
  for (size_t i = 0; i < made.size(); ++i) {
    made[i].name = node.outputs[i];
    for (size_t k = 0; k < kSizes; ++k) scope_[k][made[i].name] = made[i].at[k];
  }
  made_.rounded = made_.rounded || IsRounded(node);
  made_.model.nodes.push_back(std::move(node));
  std::vector<const Known*> out;
  for (Known& known : made) {
    values_.push_back(std::make_unique<Known>(std::move(known)));
    out.push_back(values_.back().get());
  }
  return out;
}

// Whether the rank of every output is the same at all sizes; then it gets its type.
bool Maker::HaveRanks(std::vector<Known>& made, const bool* failed) {
  for (Known& known : made) {
    std::optional<size_t> rank;
    for (size_t k = 0; k < kSizes; ++k) {
      if (failed[k]) continue;
      if (rank && *rank != known.at[k].shape.size()) return false;
      rank = known.at[k].shape.size();
      known.type = known.at[k].type;
    }
  }
  return true;
}

const Known* Maker::AddOne(const std::string& op, const std::vector<const Known*>& inputs,
                           std::map<std::string, Ints> attrs) {
  for (const Known* input : inputs) {
    if (input == nullptr) return nullptr;
  }
  const auto out = Add(op, inputs, std::move(attrs));
  return out.empty() ? nullptr : out[0];
}

size_t Maker::Good() const {
  for (size_t k = 0; k < kSizes; ++k) {
    if (!failed_[k]) return k;
  }
  return 0;
}

// Outputs: what nothing else uses, the last ones, and a number or two.
void Maker::Finish() {
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

RandomModel MakeRandomModel(uint64_t seed, bool text) { return Maker(seed, text).Run(); }

}  // namespace kiln::symbols
