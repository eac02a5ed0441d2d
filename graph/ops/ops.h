// SPDX-License-Identifier: Apache-2.0
// The records, by the file that defines them. all_ops.cc lists them sorted; everything else finds
// them by name.
#ifndef KILN_GRAPH_OPS_OPS_H_
#define KILN_GRAPH_OPS_OPS_H_

#include "graph/op.h"

namespace kiln::ops {

// arithmetic.cc
extern const OpDef kAdd, kSub, kMul, kDiv, kMod, kMax, kMin, kNeg, kAbs, kSign, kReciprocal, kPow,
    kFloor, kCeil, kRound, kClip;
// functions.cc
extern const OpDef kSqrt, kRsqrt, kExp, kLog, kTanh, kErf, kSin, kCos, kTan, kAsin, kAcos, kAtan,
    kSinh, kCosh, kAsinh, kAcosh, kAtanh;
// activation.cc
extern const OpDef kRelu, kSigmoid, kLeakyRelu, kElu, kSelu, kCelu, kHardSigmoid, kHardSwish,
    kSoftplus, kSoftsign, kSwish, kMish, kPrelu, kThresholdedRelu;
// logic.cc
extern const OpDef kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kAnd, kOr, kXor,
    kNot, kWhere, kIsNan, kIsInf, kCast, kIdentity;
// reduce.cc
extern const OpDef kReduceSum, kReduceMean, kReduceMax, kReduceMin, kReduceProd, kReduceL1,
    kReduceL2, kReduceSumSquare;
// views.cc
extern const OpDef kReshape, kSqueeze, kUnsqueeze, kFlatten;
// movement.cc
extern const OpDef kTranspose, kExpand, kConcat, kSplit, kGather, kPad, kUpsample, kConstantOfShape;
// slice.cc
extern const OpDef kSlice;
// normalize.cc
extern const OpDef kSoftmax, kLogSoftmax, kLayerNorm, kGelu, kBatchNorm, kInstanceNorm,
    kGlobalAveragePool, kGlobalMaxPool;
// matmul.cc
extern const OpDef kMatmul, kGemm;
// conv.cc
extern const OpDef kConv, kConvTranspose;
// pool.cc
extern const OpDef kMaxPool, kAveragePool;
// host.cc
extern const OpDef kShape, kSize, kRange;
// control.cc
extern const OpDef kIf, kLoop;
// graph/custom_op.cc
extern const OpDef kCustom;
// dynamic.cc
extern const OpDef kElements, kMeasure, kMatchExtent, kNonzero, kCompress, kUnique,
    kNonMaxSuppression;

}  // namespace kiln::ops

#endif  // KILN_GRAPH_OPS_OPS_H_
