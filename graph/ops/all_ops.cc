// SPDX-License-Identifier: Apache-2.0
// The registry: every record once, by name. A new record is a line here and in ops.h.
#include <algorithm>
#include <array>
#include <iterator>

#include "kiln/graph/ops/data_ops.h"
#include "kiln/graph/ops/ops.h"

namespace kiln {
namespace {

using namespace ops;

constexpr std::array kAll = {&kAbs,
                             &kAcos,
                             &kAcosh,
                             &kAdd,
                             &kAnd,
                             &kAsin,
                             &kAsinh,
                             &kAtan,
                             &kAtanh,
                             &kAveragePool,
                             &kBatchNorm,
                             &kCast,
                             &kCeil,
                             &kCelu,
                             &kClip,
                             &kConcat,
                             &kConstantOfShape,
                             &kConv,
                             &kConvTranspose,
                             &kCos,
                             &kCosh,
                             &kCumulative,
                             &kDiv,
                             &kElu,
                             &kEqual,
                             &kErf,
                             &kExp,
                             &kExpand,
                             &kFlatten,
                             &kFloor,
                             &kGather,
                             &kGatherElements,
                             &kGelu,
                             &kGemm,
                             &kGlobalAveragePool,
                             &kGlobalMaxPool,
                             &kGreater,
                             &kGreaterEqual,
                             &kHardSigmoid,
                             &kHardSwish,
                             &kIdentity,
                             &kInstanceNorm,
                             &kIota,
                             &kIsInf,
                             &kIsNan,
                             &kLayerNorm,
                             &kLeakyRelu,
                             &kLess,
                             &kLessEqual,
                             &kLog,
                             &kLogSoftmax,
                             &kMatmul,
                             &kMax,
                             &kMaxPool,
                             &kMin,
                             &kMish,
                             &kMod,
                             &kMul,
                             &kNeg,
                             &kNot,
                             &kNotEqual,
                             &kOr,
                             &kPad,
                             &kPow,
                             &kPrelu,
                             &kRange,
                             &kReciprocal,
                             &kReduceL1,
                             &kReduceL2,
                             &kReduceMax,
                             &kReduceMean,
                             &kReduceMin,
                             &kReduceProd,
                             &kReduceSum,
                             &kReduceSumSquare,
                             &kRelu,
                             &kReshape,
                             &kRound,
                             &kRsqrt,
                             &kScatterElements,
                             &kScatterNd,
                             &kSelu,
                             &kShape,
                             &kShiftLeft,
                             &kShiftRight,
                             &kSigmoid,
                             &kSign,
                             &kSin,
                             &kSinh,
                             &kSize,
                             &kSlice,
                             &kSoftmax,
                             &kSoftplus,
                             &kSoftsign,
                             &kSplit,
                             &kSqrt,
                             &kSqueeze,
                             &kSub,
                             &kSwish,
                             &kTake,
                             &kTan,
                             &kTanh,
                             &kThresholdedRelu,
                             &kTopK,
                             &kTranspose,
                             &kUnsqueeze,
                             &kUpsample,
                             &kWhere,
                             &kXor};

}  // namespace

std::span<const OpDef* const> AllOps() { return kAll; }

const OpDef* FindOp(absl::string_view name) {
  const auto found = std::lower_bound(
      kAll.begin(), kAll.end(), name,
      [](const OpDef* op, absl::string_view n) { return absl::string_view(op->name) < n; });
  return found != kAll.end() && absl::string_view((*found)->name) == name ? *found : nullptr;
}

}  // namespace kiln
