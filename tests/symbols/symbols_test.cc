// SPDX-License-Identifier: Apache-2.0
// Symbols as numbers: a model imported once with symbols gives, at every size, what the same model
// imported with these numbers gives, and what the second evaluator gives.
//
//   KILN_SYMBOL_MODELS=5000   how many models of each form
//   KILN_SYMBOL_SEED=77       the first seed; a failure names its own, which alone is replayed by
//                             KILN_SYMBOL_SEED=SEED KILN_SYMBOL_MODELS=1
//   KILN_SYMBOL_DUMP=DIR      writes every model, with its inputs and results, for other runtimes
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "tests/base/environment.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/on_vm.h"
#include "tests/onnx/model_writer.h"
#include "tests/symbols/random_model.h"

namespace kiln::symbols {
namespace {

std::string Text(const Array& array) {
  std::vector<std::string> elements;
  for (size_t i = 0; i < array.elements.size() && i < 400; ++i)
    elements.push_back(absl::StrCat(static_cast<double>(array.elements[i])));
  return absl::StrCat("type ", array.type, " ", ToString(array.shape), " {",
                      absl::StrJoin(elements, ", "), array.elements.size() > 400 ? ", ..." : "",
                      "}");
}

using Results = absl::StatusOr<std::vector<Array>>;

std::string Text(const Results& results) {
  if (!results.ok()) return absl::StrCat("error: ", results.status().ToString());
  std::vector<std::string> lines;
  for (const Array& array : *results) lines.push_back(Text(array));
  return absl::StrJoin(lines, "; ");
}

Tensor ToTensor(const Array& array) {
  Tensor tensor = Tensor::Allocate(DType::kF32, array.shape);
  for (size_t i = 0; i < array.elements.size(); ++i)
    static_cast<float*>(tensor.data())[i] = static_cast<float>(array.elements[i]);
  return tensor;
}

Array ToArray(const Tensor& given) {
  const Tensor tensor = Dense(given);
  Array array;
  array.type = tensor.dtype() == DType::kF32   ? kFloat
               : tensor.dtype() == DType::kI64 ? kInt64
               : tensor.dtype() == DType::kI32 ? kInt32
                                               : kBool;
  array.shape = tensor.shape();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    array.elements.push_back(array.type == kFloat ? static_cast<long double>(ReadFloat(tensor, i))
                                                  : static_cast<long double>(ReadInt(tensor, i)));
  }
  return array;
}

// Whether the elements are equal: NaN is NaN. `rounded`: they may be rounded in other places.
bool Same(const Array& a, const Array& b, bool rounded) {
  if (a.type != b.type || a.shape != b.shape) return false;
  long double slack = 0.01L;
  for (const long double x : b.elements) slack = std::max(slack, std::abs(x) * 1e-5L);
  return std::equal(a.elements.begin(), a.elements.end(), b.elements.begin(), b.elements.end(),
                    [&](long double x, long double y) {
                      return x == y || (std::isnan(x) && std::isnan(y)) ||
                             (rounded && std::abs(x - y) <= slack);
                    });
}

bool Same(const std::vector<Array>& a, const std::vector<Array>& b, bool rounded = false) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Array& x, const Array& y) { return Same(x, y, rounded); });
}

// Behind what is undefined a loop may have had no iteration, and what it stacks no shape: arrays of
// no elements count as equal.
bool SameButForNothing(const std::vector<Array>& a, const std::vector<Array>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Array& x, const Array& y) {
    const bool nothing = x.elements.empty() && y.elements.empty();
    return (nothing && x.shape.size() == y.shape.size()) || Same(x, y, false);
  });
}

class Symbols : public testing::Test {
 protected:
  Symbols() {
    options_ = OnVm();
    options_.kernels = std::make_shared<KernelService>(options_);
  }

  absl::StatusOr<kiln::Model> CompileOnnx(const Model& model, const std::vector<Ints>* shapes) {
    const std::string path = dir_.File("model.onnx");
    // A file of its own each time: the model with symbols is read again for some inputs.
    const std::string file = shapes == nullptr ? path : dir_.File("numbers.onnx");
    std::ofstream(file, std::ios::binary) << ToOnnx(model, shapes);
    return Compile(file, options_);
  }

  absl::StatusOr<kiln::Model> CompileText(const Model& model, const std::vector<Ints>* shapes) {
    absl::StatusOr<Graph> graph = ParseGraph(*ToText(model, shapes));
    if (!graph.ok()) return graph.status();
    return Compile(*std::move(graph), options_);
  }

  static Results Run(absl::StatusOr<kiln::Model>& model,
                     const std::map<std::string, Array>& inputs) {
    if (!model.ok()) return model.status();
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const auto& [name, array] : inputs) tensors.emplace_back(name, ToTensor(array));
    absl::StatusOr<std::vector<Tensor>> outputs = model->Run(tensors);
    if (!outputs.ok()) return outputs.status();
    std::vector<Array> arrays;
    for (const Tensor& output : *outputs) arrays.push_back(ToArray(output));
    return arrays;
  }

  // Whether an operand or extent that must be known at import is one that only a run finds out, or
  // a branch whose result has another rank is chosen by one.
  static bool IsRefused(const Results& results) {
    const absl::string_view why = results.status().message();
    return absl::IsUnimplemented(results.status()) &&
           (absl::StrContains(why, "; it depends on the data") ||
            absl::StrContains(why, "needs extents that are known") ||
            absl::StrContains(why, "is computed from extents that are not known") ||
            absl::StrContains(why, "in the other; types and ranks must be equal"));
  }

  // What is wrong with one size; empty: nothing.
  static std::string Judge(const Results& symbols, const Results& numbers,
                           const Evaluated& expected, bool rounded) {
    if (expected.outcome == Outcome::kOpen) return "";
    if (symbols.ok() != numbers.ok()) return "only one of the two imports has a result";
    const bool undefined = expected.outcome == Outcome::kUndefined;
    if (symbols.ok() &&
        !(undefined ? SameButForNothing(*symbols, *numbers) : Same(*symbols, *numbers)))
      return "with symbols another result than with numbers";
    if (undefined) return "";
    if (!symbols.ok() && expected.outcome == Outcome::kUnneeded) return "";
    if (symbols.ok() != (expected.outcome != Outcome::kError))
      return "result and error differ from the second evaluator";
    if (symbols.ok() && !Same(*symbols, expected.arrays, rounded))
      return "another result than the second evaluator";
    return "";
  }

  void Check(uint64_t seed, bool text) {
    const RandomModel made = MakeRandomModel(seed, text);
    if (made.model.outputs.empty()) return;
    if (text && !ToText(made.model, nullptr)) return;
    options_.graph_opt_level = seed % 5 == 0 ? 0 : 3;
    ++models_;
    Dump(seed, made);
    absl::StatusOr<kiln::Model> symbols =
        text ? CompileText(made.model, nullptr) : CompileOnnx(made.model, nullptr);
    for (size_t k = 0; k < kSizes; ++k) {
      if (made.expected[k].outcome == Outcome::kTooLarge) continue;
      absl::StatusOr<kiln::Model> exact = text ? CompileText(made.model, &made.shapes[k])
                                               : CompileOnnx(made.model, &made.shapes[k]);
      const Results with_symbols = Run(symbols, made.inputs[k]);
      const Results with_numbers = Run(exact, made.inputs[k]);
      const Evaluated& expected = made.expected[k];
      values_ += expected.outcome == Outcome::kValue;
      if (IsRefused(with_symbols) && IsRefused(with_numbers)) {
        ++refused_;
        break;
      }
      const std::string wrong = Judge(with_symbols, with_numbers, expected, made.rounded);
      if (wrong.empty()) continue;
      std::vector<std::string> shapes;
      for (const Ints& shape : made.shapes[k]) shapes.push_back(ToString(shape));
      ADD_FAILURE() << (text ? "text" : "onnx") << " seed " << seed << " size " << k << " "
                    << absl::StrJoin(shapes, " ") << ": " << wrong << "\n  symbols   "
                    << Text(with_symbols) << "\n  numbers   " << Text(with_numbers)
                    << "\n  evaluator "
                    << (expected.outcome == Outcome::kValue   ? Text(Results(expected.arrays))
                        : expected.outcome == Outcome::kError ? "error: " + expected.why
                                                              : "undefined: " + expected.why)
                    << "\n"
                    << ToString(made.model);
      return;
    }
  }

  void CheckAll(bool text) {
    const uint64_t first = FromEnvironment("KILN_SYMBOL_SEED", 1);
    const uint64_t count = FromEnvironment("KILN_SYMBOL_MODELS", 150);
    for (uint64_t seed = first; seed < first + count; ++seed) Check(seed, text);
    std::cout << models_ << " models, " << values_ << " results, " << refused_ << " refused\n";
    EXPECT_LE(refused_, 2 + models_ / 200);
    if (count > 20) {
      EXPECT_GT(values_, models_ * 2);
    }
  }

  static void Dump(uint64_t seed, const RandomModel& made) {
    const char* dir = std::getenv("KILN_SYMBOL_DUMP");
    if (dir == nullptr) return;
    const std::string stem = absl::StrCat(dir, "/", seed);
    std::ofstream(stem + ".onnx", std::ios::binary) << ToOnnx(made.model, nullptr);
    if (const auto graph = ToText(made.model, nullptr)) std::ofstream(stem + ".graph") << *graph;
    std::ofstream text(stem + ".txt");
    const auto write = [&](const std::string& name, const Array& array) {
      text << name << " " << array.type << " " << absl::StrJoin(array.shape, ",") << ";";
      for (const long double element : array.elements) text << " " << static_cast<double>(element);
      text << "\n";
    };
    for (size_t k = 0; k < kSizes; ++k) {
      text << "size " << static_cast<int>(made.expected[k].outcome) << " " << made.expected[k].why
           << "\n";
      for (const auto& [name, array] : made.inputs[k]) write("in " + name, array);
      for (const Array& array : made.expected[k].arrays) write("out y", array);
    }
  }

  TempDir dir_;
  CompileOptions options_;
  uint64_t models_ = 0, values_ = 0, refused_ = 0;
};

TEST_F(Symbols, OnnxModelsGiveWhatTheyGiveWithNumbers) { CheckAll(false); }

TEST_F(Symbols, TextGraphsGiveWhatTheyGiveWithNumbers) { CheckAll(true); }

}  // namespace
}  // namespace kiln::symbols
