// SPDX-License-Identifier: Apache-2.0
// The table of ONNX operators: {operator, the operator set it changed in, how its node becomes ops
// of the registry}.
//
// One row per operator and change of meaning; of several rows the one with the largest `since` not
// above the model's version holds. An operator that a record says is its form in ONNX (OnnxForm,
// graph/op.h) has its row from there. All others have one in the file of their family
// (convert_*.cc): compositions, and operators that are more than their record. A row of a family
// goes before one that a record makes for the same operator at the same or an older version.
#ifndef KILN_GRAPH_ONNX_CONVERTER_H_
#define KILN_GRAPH_ONNX_CONVERTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln::onnx {

class NodeView;

// Models of older operator sets are read with these rows; what was different then has attributes or
// operands that the rows refuse.
inline constexpr int kOldestOpset = 6;

// The newest operator set of ONNX's own domain that the rows were written for. A newer one may give
// an operator another meaning, so that models of it are refused, as ONNX Runtime refuses them.
inline constexpr int kNewestOpset = 27;

struct Converter {
  const char* op;
  int since;  // kOldestOpset also stands for all that is older and alike
  // kUnimplemented: the node is listed as unsupported, with the message as the reason. Other
  // errors: the model is wrong.
  absl::Status (*convert)(NodeView& n);
  const char* record = "";
};

// The converter of rows that a record makes (OnnxForm), for other converters to end with.
absl::Status AsRecord(NodeView& n);
// That of reductions: the axes are an attribute or an operand.
absl::Status AsReduction(NodeView& n);

std::span<const Converter> ElementwiseConverters();
std::span<const Converter> ReduceConverters();
std::span<const Converter> ShapeConverters();
std::span<const Converter> NeuralConverters();
std::span<const Converter> SelectConverters();
std::span<const Converter> SampleConverters();
std::span<const Converter> TensorConverters();
std::span<const Converter> AttentionConverters();
std::span<const Converter> QuantizedConverters();
std::span<const Converter> RandomConverters();
std::span<const Converter> RecurrentConverters();
std::span<const Converter> DynamicConverters();  // and what import alone knows: If, sequences, ...
std::span<const Converter> SignalConverters();
std::span<const Converter> TrainingConverters();  // "ai.onnx.preview.training.Name"
std::span<const Converter> ContribConverters();   // "com.microsoft.Name"

// The row for an operator of ONNX's own domain at this version; null if there is none.
const Converter* FindConverter(absl::string_view op, int64_t opset);

// All rows, by operator and version. Immutable.
const std::vector<Converter>& AllConverters();

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_CONVERTER_H_
