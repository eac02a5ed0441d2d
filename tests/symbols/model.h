// SPDX-License-Identifier: Apache-2.0
// A model of the judge, free of any form it is imported from: written as ONNX bytes, with symbols
// or with numbers for the extents of its inputs, and as graph text where that has all its
// operators.
#ifndef KILN_TESTS_SYMBOLS_MODEL_H_
#define KILN_TESTS_SYMBOLS_MODEL_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/symbols/array.h"

namespace kiln::symbols {

struct Model;

// An operator of ONNX's operator set 18. An input "" is absent. Attributes whose names are in
// model.cc's list of scalars have one element.
struct ModelNode {
  std::string op;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Ints> attrs = {};
  std::map<std::string, std::string> texts = {};  // attributes that are strings
  // Attributes that are graphs: branches and bodies. They read values around them by name.
  std::map<std::string, std::shared_ptr<const Model>> bodies = {};
};

// A dim is a name, which may be one that names nothing ("", "?"), or a number.
struct ModelDim {
  std::string name;
  int64_t number = -1;
};

struct ModelInput {
  std::string name;
  std::vector<ModelDim> dims;  // of the model's inputs; those of a body say none
  int type = 1;                // f32; a body's may be others
};

struct Model {
  std::vector<ModelInput> inputs;
  std::map<std::string, Array> constants;
  std::vector<ModelNode> nodes;
  std::vector<std::string> outputs;
  std::map<std::string, int> output_types;
};

// With `shapes`, one for each input, the extents are those numbers.
std::string ToOnnx(const Model& model, const std::vector<Ints>* shapes);
// Nothing where an operator has no form in graph text, or dims are without names.
std::optional<std::string> ToText(const Model& model, const std::vector<Ints>* shapes);
// For failure messages.
std::string ToString(const Model& model);
std::string ToString(const Ints& ints);

}  // namespace kiln::symbols

#endif  // KILN_TESTS_SYMBOLS_MODEL_H_
