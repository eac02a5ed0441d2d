// SPDX-License-Identifier: Apache-2.0
// Matrix products on oneDNN.
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/onednn.h"
#include "exec/library/onednn_primitive.h"
#include "exec/library/post_ops.h"
#include "exec/library/reference_matmul.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

struct MatmulDescs {
  Dims a, b, c, a_strides, b_strides, c_strides;
  std::vector<Dims> operands, operand_strides;
};

// Two axes and the batch, at most 12 as oneDNN has it; nothing if it cannot take these operands.
std::optional<MatmulDescs> DescribeMatmul(const MatmulForm& f) {
  MatmulDescs d;
  for (const MatmulForm::Batch& batch : f.batch) {
    d.a.push_back(batch.a == 0 ? 1 : batch.extent);
    d.b.push_back(batch.b == 0 ? 1 : batch.extent);
    d.c.push_back(batch.extent);
    d.a_strides.push_back(batch.a);
    d.b_strides.push_back(batch.b);
    d.c_strides.push_back(batch.c);
  }
  d.a.insert(d.a.end(), {f.m, f.k});
  d.b.insert(d.b.end(), {f.k, f.n});
  d.c.insert(d.c.end(), {f.m, f.n});
  d.a_strides.insert(d.a_strides.end(), {f.a_m, f.a_k});
  d.b_strides.insert(d.b_strides.end(), {f.b_k, f.b_n});
  d.c_strides.insert(d.c_strides.end(), {f.c_m, f.c_n});
  bool takes = d.c.size() <= DNNL_MAX_NDIMS && TakesStrides(d.a, d.a_strides) &&
               TakesStrides(d.b, d.b_strides) && TakesStrides(d.c, d.c_strides);
  for (size_t k = 0; k < f.operands_m.size(); ++k) {
    Dims strides;
    for (const MatmulForm::Batch& batch : f.batch) strides.push_back(batch.operands[k]);
    strides.insert(strides.end(), {f.operands_m[k], f.operands_n[k]});
    Dims dims = d.c;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (strides[i] == 0) dims[i] = 1;
    }
    takes = takes && TakesStrides(dims, strides);
    d.operand_strides.push_back(Tidy(dims, std::move(strides)));
    d.operands.push_back(std::move(dims));
  }
  if (!takes) return std::nullopt;
  d.a_strides = Tidy(d.a, d.a_strides);
  d.b_strides = Tidy(d.b, d.b_strides);
  d.c_strides = Tidy(d.c, d.c_strides);
  return d;
}

Epilogue EpilogueOf(const MatmulDescs& d, const Request& request) {
  Epilogue epilogue;
  epilogue.first_operand = 2;
  epilogue.post_ops = request.post_ops;
  for (size_t k = 0; k < d.operands.size(); ++k)
    epilogue.operands.emplace_back(d.operands[k], kF32, d.operand_strides[k]);
  if (d.operands.empty() || request.post_ops[0].name != "add") return epilogue;
  Dims over_columns(d.c.size(), 1);
  over_columns.back() = d.c.back();
  epilogue.bias = d.operands[0] == over_columns && d.operand_strides[0].back() == 1;
  if (epilogue.bias) {
    epilogue.post_ops.erase(epilogue.post_ops.begin());
    return epilogue;
  }
  // A run that is repeated for a NaN reads the operand again.
  epilogue.sum = request.spent == epilogue.first_operand && !MayDropNan(request.post_ops) &&
                 d.operands[0] == d.c && d.operand_strides[0] == d.c_strides &&
                 IsDense(request.outputs[0]);
  return epilogue;
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeFrom(const MatmulDescs& d, const Request& request,
                                                    const std::shared_ptr<OneDnnSession>& session) {
  using PrimitiveDesc = dnnl::matmul::primitive_desc;
  const void* constant_b = request.inputs[1].constant;
  const Desc a(d.a, kF32, d.a_strides), b(d.b, kF32, d.b_strides), c(d.c, kF32, d.c_strides);
  const Desc wanted_b = constant_b != nullptr ? Desc(d.b, kF32, kAny) : b;
  Epilogue epilogue = EpilogueOf(d, request);
  std::optional<Desc> bias;
  if (epilogue.bias) {
    bias = epilogue.operands[0];
    epilogue.operands.erase(epilogue.operands.begin());
  }
  const dnnl::primitive_attr attributes = AttributesOf(epilogue);
  const PrimitiveDesc pd = Undivided([&] {
    return bias ? PrimitiveDesc(session->engine(), a, wanted_b, *bias, c, attributes)
                : PrimitiveDesc(session->engine(), a, wanted_b, c, attributes);
  });
  const char* name = pd.impl_info_str();
  if (LosesByPostOps(name, request.post_ops))
    return absl::UnimplementedError(absl::StrCat(name, " is a plain loop with post-ops"));
  const bool may_drop = MayDropNan(epilogue.post_ops);
  if (may_drop && !IsGenerated(name))
    return absl::UnimplementedError(absl::StrCat(name, " could lose a NaN in a post-op"));
  auto primitive = std::make_unique<OneDnnPrimitive>(session);
  primitive->AddSlot(DNNL_ARG_SRC, Slot::From::kInput, 0, a, pd.src_desc(), nullptr);
  primitive->AddSlot(DNNL_ARG_WEIGHTS, Slot::From::kInput, 1, b, pd.weights_desc(), constant_b);
  if (bias)
    primitive->AddSlot(DNNL_ARG_BIAS, Slot::From::kInput, 2, *bias, pd.bias_desc(), nullptr);
  primitive->AddSlot(DNNL_ARG_DST, Slot::From::kOutput, 0, c, pd.dst_desc(), nullptr);
  AddOperands(epilogue, *primitive);
  primitive->SetPrimitive(Undivided([&] { return dnnl::matmul(pd); }), pd.scratchpad_desc());
  primitive->Describe(name);
  if (may_drop) primitive->RepeatWithout(*Find("matmul"), request);
  return primitive;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeOneDnnMatmul(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_ASSIGN_OR_RETURN(const MatmulForm form, NormalizeMatmul(request));
  KILN_RETURN_IF_ERROR(TakesOperands(request));
  if (form.k == 0) return absl::UnimplementedError("sums over nothing");
  const std::optional<MatmulDescs> descs = DescribeMatmul(form);
  if (!descs) return absl::UnimplementedError("strides that overlap, or more than 12 axes");
  const auto onednn = std::static_pointer_cast<OneDnnSession>(session);
  return onednn->Call([&] { return MakeFrom(*descs, request, onednn); });
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeMatmulLoop(const Request& request,
                                                          const std::shared_ptr<Session>&) {
  if (request.inputs[0].type == DType::kBool)
    return absl::UnimplementedError("type bool is not supported; cast to a number");
  KILN_ASSIGN_OR_RETURN(MatmulForm form, NormalizeMatmul(request));
  return MakeReferenceMatmul(request.inputs[0].type, std::move(form));
}

}  // namespace kiln::library
