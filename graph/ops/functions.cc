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
constexpr OpDef Function(const char* name, const char* doc, OnnxForm onnx, TestRange range,
                         const char* witness, const char* note = "") {
  return {.name = name,
          .doc = doc,
          .kind = OpKind::kScalar,
          .infer = InferFloat,
          .scalar = Body<op>,
          .onnx = {onnx},
          .test = range,
          .witness = witness,
          .gradient = {.note = note}};
}

constexpr OpDef kFunctionsOps[] = {
    Function<ScalarOp::kSqrt>("sqrt", "The square root; NaN below zero; -0 stays.", {"Sqrt"},
                              {0, 9}, "onnx node tests: sqrt", "inf at 0"),
    Function<ScalarOp::kRsqrt>("rsqrt", "1 / sqrt(x).", {}, {0.1, 9}, "C++ std::sqrt", "-inf at 0"),
    Function<ScalarOp::kExp>("exp", "e to the power x.", {"Exp"}, {-9, 9}, "onnx node tests: exp"),
    Function<ScalarOp::kLog>("log", "The natural logarithm; -inf at 0, NaN below.", {"Log"},
                             {0.1, 9}, "onnx node tests: log", "inf at 0"),
    Function<ScalarOp::kTanh>("tanh", "The hyperbolic tangent.", {"Tanh"}, {-9, 9},
                              "onnx node tests: tanh"),
    Function<ScalarOp::kErf>("erf", "The error function.", {"Erf", 9}, {-4, 4},
                             "onnx node tests: erf"),
    Function<ScalarOp::kSin>("sin", "The sine; NaN at infinity.", {"Sin", 7}, {-9, 9},
                             "onnx node tests: sin"),
    Function<ScalarOp::kCos>("cos", "The cosine; NaN at infinity.", {"Cos", 7}, {-9, 9},
                             "onnx node tests: cos"),
    Function<ScalarOp::kTan>("tan", "The tangent.", {"Tan", 7}, {-1, 1}, "onnx node tests: tan"),
    Function<ScalarOp::kAsin>("asin", "The arc sine; NaN outside [-1, 1].", {"Asin", 7}, {-1, 1},
                              "onnx node tests: asin", "inf at -1 and 1"),
    Function<ScalarOp::kAcos>("acos", "The arc cosine; NaN outside [-1, 1].", {"Acos", 7}, {-1, 1},
                              "onnx node tests: acos", "-inf at -1 and 1"),
    Function<ScalarOp::kAtan>("atan", "The arc tangent.", {"Atan", 7}, {-9, 9},
                              "onnx node tests: atan"),
    Function<ScalarOp::kSinh>("sinh", "The hyperbolic sine.", {"Sinh", 9}, {-4, 4},
                              "onnx node tests: sinh"),
    Function<ScalarOp::kCosh>("cosh", "The hyperbolic cosine.", {"Cosh", 9}, {-4, 4},
                              "onnx node tests: cosh"),
    Function<ScalarOp::kAsinh>("asinh", "The inverse of sinh.", {"Asinh", 9}, {-9, 9},
                               "onnx node tests: asinh"),
    Function<ScalarOp::kAcosh>("acosh", "The inverse of cosh; NaN below 1.", {"Acosh", 9}, {1, 9},
                               "onnx node tests: acosh", "inf at 1"),
    Function<ScalarOp::kAtanh>("atanh", "The inverse of tanh; NaN outside [-1, 1].", {"Atanh", 9},
                               {-0.9, 0.9}, "onnx node tests: atanh"),
};

}  // namespace

std::span<const OpDef> FunctionOps() { return kFunctionsOps; }

}  // namespace kiln::ops
