// SPDX-License-Identifier: Apache-2.0
// Functions of one float: roots, exponentials, trigonometry. Their expansions are in kernel/math.h.
#include "graph/infer.h"
#include "graph/ops/ops.h"

namespace kiln::ops {
namespace {

template <ScalarOp op>
Ex Body(ScalarBody& b) {
  return Apply(op, b.in(0));
}

template <ScalarOp op>
constexpr OpDef Function(const char* name, const char* doc, const char* onnx, TestRange range,
                         const char* witness) {
  return {.name = name,
          .doc = doc,
          .kind = OpKind::kScalar,
          .infer = InferFloat,
          .scalar = Body<op>,
          .onnx = onnx,
          .test = range,
          .witness = witness};
}

}  // namespace

constexpr OpDef kSqrt = Function<ScalarOp::kSqrt>(
    "sqrt", "The square root; NaN below zero; -0 stays.", "Sqrt", {0, 9}, "onnx node tests: sqrt");
constexpr OpDef kRsqrt =
    Function<ScalarOp::kRsqrt>("rsqrt", "1 / sqrt(x).", "", {0.1, 9}, "C++ std::sqrt");
constexpr OpDef kExp =
    Function<ScalarOp::kExp>("exp", "e to the power x.", "Exp", {-9, 9}, "onnx node tests: exp");
constexpr OpDef kLog = Function<ScalarOp::kLog>(
    "log", "The natural logarithm; -inf at 0, NaN below.", "Log", {0.1, 9}, "onnx node tests: log");
constexpr OpDef kTanh = Function<ScalarOp::kTanh>("tanh", "The hyperbolic tangent.", "Tanh",
                                                  {-9, 9}, "onnx node tests: tanh");
constexpr OpDef kErf =
    Function<ScalarOp::kErf>("erf", "The error function.", "Erf", {-4, 4}, "onnx node tests: erf");
constexpr OpDef kSin = Function<ScalarOp::kSin>("sin", "The sine; NaN at infinity.", "Sin", {-9, 9},
                                                "onnx node tests: sin");
constexpr OpDef kCos = Function<ScalarOp::kCos>("cos", "The cosine; NaN at infinity.", "Cos",
                                                {-9, 9}, "onnx node tests: cos");
constexpr OpDef kTan =
    Function<ScalarOp::kTan>("tan", "The tangent.", "Tan", {-1, 1}, "onnx node tests: tan");
constexpr OpDef kAsin = Function<ScalarOp::kAsin>("asin", "The arc sine; NaN outside [-1, 1].",
                                                  "Asin", {-1, 1}, "onnx node tests: asin");
constexpr OpDef kAcos = Function<ScalarOp::kAcos>("acos", "The arc cosine; NaN outside [-1, 1].",
                                                  "Acos", {-1, 1}, "onnx node tests: acos");
constexpr OpDef kAtan =
    Function<ScalarOp::kAtan>("atan", "The arc tangent.", "Atan", {-9, 9}, "onnx node tests: atan");
constexpr OpDef kSinh = Function<ScalarOp::kSinh>("sinh", "The hyperbolic sine.", "Sinh", {-4, 4},
                                                  "onnx node tests: sinh");
constexpr OpDef kCosh = Function<ScalarOp::kCosh>("cosh", "The hyperbolic cosine.", "Cosh", {-4, 4},
                                                  "onnx node tests: cosh");
constexpr OpDef kAsinh = Function<ScalarOp::kAsinh>("asinh", "The inverse of sinh.", "Asinh",
                                                    {-9, 9}, "onnx node tests: asinh");
constexpr OpDef kAcosh = Function<ScalarOp::kAcosh>("acosh", "The inverse of cosh; NaN below 1.",
                                                    "Acosh", {1, 9}, "onnx node tests: acosh");
constexpr OpDef kAtanh =
    Function<ScalarOp::kAtanh>("atanh", "The inverse of tanh; NaN outside [-1, 1].", "Atanh",
                               {-0.9, 0.9}, "onnx node tests: atanh");

}  // namespace kiln::ops
