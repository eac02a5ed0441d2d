// SPDX-License-Identifier: Apache-2.0
// Random numbers and dropout. They are those of graph/ops/random.cc: functions of the node's seed
// and its output's name, so that a model has the same ones in every run.
#include <bit>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"

namespace kiln::onnx {
namespace {

// ONNX's seed is a float.
int64_t SeedOf(NodeView& n) {
  if (!n.HasAttr("seed")) return 0;
  return static_cast<int64_t>(std::bit_cast<uint64_t>(n.Float("seed", 0)));
}

// The type that attribute dtype names, or else `otherwise`.
absl::StatusOr<DType> TypeOf(NodeView& n, DType otherwise) {
  if (!n.HasAttr("dtype")) return otherwise;
  return ToDType(n.Int("dtype", 0));
}

absl::Status EmitDrawn(NodeView& n, const Shape& shape, DType otherwise) {
  KILN_ASSIGN_OR_RETURN(const DType type, TypeOf(n, otherwise));
  Attrs attrs = {{"shape", DimsValue(shape)},
                 {"type", type},
                 {"seed", SeedOf(n)},
                 {"stream", n.RandomStream()}};
  const bool uniform = absl::string_view(n.record()) == "random_uniform";
  attrs[uniform ? "low" : "mean"] = n.Float(uniform ? "low" : "mean", 0);
  attrs[uniform ? "high" : "scale"] = n.Float(uniform ? "high" : "scale", 1);
  return n.Emit(n.record(), {}, std::move(attrs));
}

absl::Status Drawn(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(0, 0));
  const std::vector<int64_t> shape = n.Ints("shape");
  for (const int64_t extent : shape) {
    if (extent < 0) return absl::InvalidArgumentError(absl::StrCat("an extent is ", extent));
  }
  return EmitDrawn(n, ToShape(shape), DType::kF32);
}

absl::Status DrawnLike(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  return EmitDrawn(n, ShapeOf(n, n.in(0)), n.value(0).type);
}

absl::Status Bernoulli(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  KILN_ASSIGN_OR_RETURN(const DType to, TypeOf(n, n.value(0).type));
  return n.Emit("bernoulli", {n.in(0)},
                {{"to", to}, {"seed", SeedOf(n)}, {"stream", n.RandomStream()}});
}

absl::Status Multinomial(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 1));
  KILN_ASSIGN_OR_RETURN(const DType to, TypeOf(n, DType::kI32));
  return n.Emit("multinomial", {n.in(0)},
                {{"to", to},
                 {"samples", n.Int("sample_size", 1)},
                 {"seed", SeedOf(n)},
                 {"stream", n.RandomStream()}});
}

// At inference the data pass unchanged and the mask is all true.
absl::Status Dropout(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 3));
  const int64_t seed = n.Int("seed", 0);
  double ratio = n.Float("ratio", 0.5);
  bool training = n.opset() < 7 && n.Int("is_test", 0) == 0;
  if (n.has(2)) {
    KILN_ASSIGN_OR_RETURN(const std::vector<double> mode, n.ConstFloats(2, "training_mode"));
    training = mode.size() == 1 && mode[0] != 0;
  }
  training = training || n.training();
  if (training && n.has(1)) {
    KILN_ASSIGN_OR_RETURN(const std::vector<double> given, n.ConstFloats(1, "ratio"));
    if (given.size() != 1) return absl::InvalidArgumentError("ratio must have one element");
    ratio = given[0];
  }
  if (training && ratio != 0) {
    return n.Emit("dropout", {n.in(0)},
                  {{"ratio", ratio}, {"seed", seed}, {"stream", n.RandomStream()}});
  }
  if (n.wants(1)) {
    const ValueId mask = n.Op("expand", {n.Scalar(DType::kBool, 1), n.Op("shape", {n.in(0)})});
    KILN_RETURN_IF_ERROR(n.Give(1, mask));
  }
  return n.Emit("identity", {n.in(0)});
}

constexpr Converter kRandomRows[] = {
    {"Bernoulli", 15, Bernoulli},
    {"Dropout", 6, Dropout},
    {"Multinomial", 7, Multinomial},
    {"RandomNormal", 6, Drawn, "random_normal"},
    {"RandomNormalLike", 6, DrawnLike, "random_normal"},
    {"RandomUniform", 6, Drawn, "random_uniform"},
    {"RandomUniformLike", 6, DrawnLike, "random_uniform"},
};

}  // namespace

std::span<const Converter> RandomConverters() { return kRandomRows; }

}  // namespace kiln::onnx
