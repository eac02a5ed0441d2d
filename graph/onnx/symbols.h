// SPDX-License-Identifier: Apache-2.0
// Symbols for the dimension names of a model, which may be any text.
#ifndef KILN_GRAPH_ONNX_SYMBOLS_H_
#define KILN_GRAPH_ONNX_SYMBOLS_H_

#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "kiln/dim.h"

namespace kiln::onnx {

class Symbols {
 public:
  // The symbol of a name that the model's author has given: the same for the same name, different
  // for different ones. What cannot stand in a symbol becomes '_': "past + 1" is past___1.
  Dim Named(const std::string& name);
  // A symbol used nowhere else, called `wish` if that is free.
  Dim Fresh(absl::string_view wish);
  // No fresh symbol gets a name that `dim` has.
  void Reserve(const Dim& dim);
  // True if a name says nothing: empty, "?", "None", a negative number, or made up by an exporter
  // ("unk__12"). Two such dims may differ, whatever they are called.
  static bool IsNoName(absl::string_view name);

 private:
  std::string Unique(absl::string_view wish);

  std::map<std::string, std::string> named_;
  std::set<std::string> used_;
  std::map<std::string, int> tried_;  // numbers behind a stem that are taken
};

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_SYMBOLS_H_
