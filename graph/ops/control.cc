// SPDX-License-Identifier: Apache-2.0
// Control flow. A node owns the graphs that it may run (Body), and names in `extents` the extents
// of all its outputs in a row; extents that only a run finds out are new symbols.
//
//   r : f32 [k] = if(c, x) {else_branch = b, extents = [k], then_branch = a}
//     both branches take the inputs behind c, in order, and give as many results of equal types.
//   s, t : ... = loop(m, c, s0, x) {body = b, carried = 1, extents = [4, steps, 4]}
//     body(i, c, s..., x...) -> (c, s..., t...). m (i64, absent: no bound) and c (bool, absent:
//     true) are as ONNX has them: while i < m and c. s are carried from iteration to iteration; x
//     are the same in every one; of t all results are stacked along a new first axis.
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"

namespace kiln::ops {
namespace {

absl::Status RequireOne(const InferContext& c, int k, DType type, absl::string_view what) {
  if (!c.has_input(k)) return absl::OkStatus();
  if (c.type(k) == type && (c.shape(k).empty() || c.shape(k) == Shape{1})) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the ", what, " is ", Name(c.type(k)), " ",
                                                 ToString(c.shape(k)), "; it must be one ",
                                                 Name(type)));
}

absl::Status RequireInput(const InferContext& c, const Graph& body, size_t place, int input) {
  const Value& inner = body.value(body.inputs()[place]);
  if (!c.has_input(input))
    return absl::InvalidArgumentError(absl::StrCat("input ", input, " is absent"));
  if (inner.type == c.type(input) && inner.shape.size() == c.shape(input).size())
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "input ", input, " is ", Name(c.type(input)), " ", ToString(c.shape(input)), "; graph \"",
      body.name, "\" takes ", Name(inner.type), " ", ToString(inner.shape)));
}

absl::Status WrongCount(const Graph& body, absl::string_view what, size_t has, size_t wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("graph \"", body.name, "\" has ", has, " ", what, "; expected ", wanted));
}

const Value& OutputOf(const Graph& body, size_t k) { return body.value(body.outputs()[k].value); }

// Takes the extents of output k off the front of `extents`.
absl::Status SetFromExtents(InferContext& c, size_t k, DType type, size_t rank,
                            const Shape& extents, size_t& at) {
  if (at + rank > extents.size())
    return absl::InvalidArgumentError(absl::StrCat("extents ", ToString(extents), " are too few"));
  const auto first = extents.begin() + static_cast<std::ptrdiff_t>(at);
  c.SetOutput(static_cast<int>(k), type, Shape(first, first + static_cast<std::ptrdiff_t>(rank)));
  at += rank;
  return absl::OkStatus();
}

absl::Status InferIf(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireOne(c, 0, DType::kBool, "condition"));
  const Graph* branches[] = {&GraphAttr(c.node(), "then_branch"),
                             &GraphAttr(c.node(), "else_branch")};
  for (const Graph* branch : branches) {
    const size_t wanted = static_cast<size_t>(c.num_inputs()) - 1;
    if (branch->inputs().size() != wanted)
      return WrongCount(*branch, "inputs", branch->inputs().size(), wanted);
    if (branch->outputs().size() != c.outputs.size())
      return WrongCount(*branch, "outputs", branch->outputs().size(), c.outputs.size());
    for (size_t k = 0; k < wanted; ++k)
      KILN_RETURN_IF_ERROR(RequireInput(c, *branch, k, static_cast<int>(k) + 1));
  }
  const Shape extents = DimsAttr(c.node(), "extents");
  size_t at = 0;
  for (size_t k = 0; k < c.outputs.size(); ++k) {
    const Value& a = OutputOf(*branches[0], k);
    const Value& b = OutputOf(*branches[1], k);
    if (a.type != b.type || a.shape.size() != b.shape.size()) {
      return absl::UnimplementedError(absl::StrCat(
          "output ", k, " is ", Name(a.type), " ", ToString(a.shape), " in one branch and ",
          Name(b.type), " ", ToString(b.shape), " in the other; types and ranks must be equal"));
    }
    KILN_RETURN_IF_ERROR(SetFromExtents(c, k, a.type, a.shape.size(), extents, at));
  }
  return absl::OkStatus();
}

absl::Status InferLoop(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireOne(c, 0, DType::kI64, "trip count"));
  KILN_RETURN_IF_ERROR(RequireOne(c, 1, DType::kBool, "condition"));
  const Graph& body = GraphAttr(c.node(), "body");
  const int64_t carried = IntAttr(c.node(), "carried");
  const auto count = static_cast<size_t>(carried);
  if (carried < 0 || carried > c.num_inputs() - 2)
    return absl::InvalidArgumentError(absl::StrCat(carried, " carried values"));
  if (body.inputs().size() != static_cast<size_t>(c.num_inputs()))
    return WrongCount(body, "inputs", body.inputs().size(), static_cast<size_t>(c.num_inputs()));
  if (body.outputs().size() != c.outputs.size() + 1)
    return WrongCount(body, "outputs", body.outputs().size(), c.outputs.size() + 1);
  for (size_t k = 2; k < body.inputs().size(); ++k)
    KILN_RETURN_IF_ERROR(RequireInput(c, body, k, static_cast<int>(k)));
  const Shape extents = DimsAttr(c.node(), "extents");
  size_t at = 0;
  for (size_t k = 0; k < c.outputs.size(); ++k) {
    const Value& made = OutputOf(body, k + 1);
    const size_t rank = made.shape.size() + (k < count ? 0 : 1);
    if (k < count) {
      const Value& taken = body.value(body.inputs()[k + 2]);
      if (made.type != taken.type || made.shape.size() != taken.shape.size()) {
        return absl::UnimplementedError(absl::StrCat(
            "carried value ", k, " goes in as ", Name(taken.type), " ", ToString(taken.shape),
            " and comes out as ", Name(made.type), " ", ToString(made.shape)));
      }
    }
    KILN_RETURN_IF_ERROR(SetFromExtents(c, k, made.type, rank, extents, at));
  }
  return absl::OkStatus();
}

constexpr AttrSpec kIfAttrs[] = {
    {"then_branch", AttrKind::kGraph, true, 0, nullptr, "run if the condition is true"},
    {"else_branch", AttrKind::kGraph, true, 0, nullptr, "run if it is false"},
    {"extents", AttrKind::kDims, true, 0, nullptr, "of all outputs, in a row"}};
constexpr AttrSpec kLoopAttrs[] = {
    {"body", AttrKind::kGraph, true, 0, nullptr, "one iteration"},
    {"carried", AttrKind::kInt, true, 0, nullptr, "how many values go from iteration to iteration"},
    {"extents", AttrKind::kDims, true, 0, nullptr, "of all outputs, in a row"}};

constexpr OpDef kControlOps[] = {
    {.name = "if",
     .doc = "One of two graphs, by a condition known when it runs.",
     .kind = OpKind::kControl,
     .min_inputs = 1,
     .max_inputs = -1,
     .num_outputs = -1,
     .attrs = kIfAttrs,
     .infer = InferIf,
     .onnx_converted = "If",
     .witness = "onnx node tests: if",
     .dynamic = true,
     .gradient = {.rule = gradient::If}},
    {.name = "loop",
     .doc = "A graph run again and again, with values carried from iteration to "
            "iteration; inputs trip count, condition, carried values, captures.",
     .kind = OpKind::kControl,
     .min_inputs = 0,
     .max_inputs = -1,
     .num_outputs = -1,
     .attrs = kLoopAttrs,
     .infer = InferLoop,
     .onnx_converted = "Loop Scan",
     .witness = "onnx node tests: loop, scan",
     .dynamic = true,
     .gradient = {.rule = gradient::Loop}},
};

}  // namespace

std::span<const OpDef> ControlOps() { return kControlOps; }

}  // namespace kiln::ops
