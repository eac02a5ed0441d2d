// SPDX-License-Identifier: Apache-2.0
// Maker: makes the models of random_model.h, one family of nodes in each file.
#ifndef KILN_TESTS_SYMBOLS_MAKER_H_
#define KILN_TESTS_SYMBOLS_MAKER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/onnx/model_writer.h"
#include "tests/symbols/random_model.h"

namespace kiln::symbols {

// A value of the model with its elements at every size.
struct Known {
  std::string name;
  int type = kFloat;
  Array at[kSizes];  // meaningless where the size has failed
  const Ints& shape(size_t k) const { return at[k].shape; }
};

class Maker {
 public:
  Maker(uint64_t seed, bool text) : state_(seed * 0x9E3779B97F4A7C15u + 1), text_(text) {}

  RandomModel Run();

 private:
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

  // ---- random_model.cc: inputs, nodes, outputs
  void AddInputs();
  std::string NewName(const std::string& stem) { return stem + std::to_string(++names_); }
  const Known* Constant(Array array);
  const Known* Number(int64_t value) { return Constant({kInt64, {}, {(long double)value}}); }
  const Known* List(const Ints& values) {
    return Constant({kInt64,
                     {static_cast<int64_t>(values.size())},
                     std::vector<long double>(values.begin(), values.end())});
  }
  // Whether the arrays are worth going on with.
  static bool IsFine(const Array& array);
  static bool HaveRanks(std::vector<Known>& made, const bool* failed);
  // Adds a node if enough sizes have a result; its outputs, else none.
  std::vector<const Known*> Add(ModelNode node, const std::vector<const Known*>& inputs,
                                int outputs);
  std::vector<const Known*> Add(const std::string& op, const std::vector<const Known*>& inputs,
                                std::map<std::string, Ints> attrs = {}, int outputs = 1);
  const Known* AddOne(const std::string& op, const std::vector<const Known*>& inputs,
                      std::map<std::string, Ints> attrs = {});
  // A size that is still right.
  size_t Good() const;
  size_t Rank(const Known& x) const { return x.shape(Good()).size(); }
  int64_t Length(const Known& x) const { return x.shape(Good()).empty() ? 1 : x.shape(Good())[0]; }
  void Finish();

  // ---- random_ints.cc: shape arithmetic
  void AddShapes();
  void AddIntNode();
  void Keep(const Known* value) {
    if (value != nullptr) ints_.push_back(value);
  }
  const Known* Extent(const Known* shape);  // one of a shape, [] or [1]
  int64_t SmallConstant();
  const Known* AnyInt();
  const Known* AsList(const Known* x);
  const Known* AsNumber(const Known* x);
  // A list of `count` numbers, each a constant from `numbers` or computed.
  const Known* ListOf(size_t count, const Ints& numbers, int64_t computed);

  // ---- random_moves.cc: operators that move elements
  void AddMove();
  void KeepData(const Known* value);
  Known AnyData();
  void MakeSlice(const Known& x);
  void MakeReshape(const Known& x);
  void MakeRange();
  void MakeSplit(const Known& x);
  void MakeArrangement(const Known& x);
  void MakeGather(const Known& x);

  // ---- random_found.cc: extents that a run finds
  void MakeFound(const Known& x);
  const Known* AnyMask(const Known& x, int64_t axis);

  // ---- random_windows.cc: products, pools, Resize
  void MakeProduct(const Known& x);
  void MakePool(const Known& x);
  void MakeResize(const Known& x);
  const Known* AnyScale(const Known& x, size_t axis);

  // ---- random_control.cc: nodes with bodies
  void MakeIf(const Known& x);
  void MakeLoop(const Known& x);
  void MakeScan(const Known& x);
  const Known* AnyCondition();

  uint64_t state_;
  const bool text_;
  int names_ = 0;
  RandomModel made_;
  bool failed_[kSizes] = {};
  Values scope_[kSizes];  // all values so far
  std::vector<std::unique_ptr<Known>> values_, constants_;
  std::vector<const Known*> ints_, shapes_;
  std::vector<Known> data_;
};

}  // namespace kiln::symbols

#endif  // KILN_TESTS_SYMBOLS_MAKER_H_
