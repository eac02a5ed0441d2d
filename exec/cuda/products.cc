// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/products.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/cuda/launch_queue.h"

namespace kiln::cuda {
namespace {

constexpr int kAsked = 8;                            // speed: answers of the heuristics
constexpr size_t kMostWorkspace = size_t{32} << 20;  // speed: as NVIDIA advises for Hopper

LtType TypeOf(DType type) {
  switch (type) {
    case DType::kF64:
      return kLtR64F;
    case DType::kF16:
      return kLtR16F;
    case DType::kBF16:
      return kLtR16BF;
    default:
      return kLtR32F;
  }
}

// The first error of several calls.
class Calls {
 public:
  explicit Calls(const CublasLt& lt) : lt_(lt) {}
  void Add(LtStatus status, absl::string_view what) {
    if (status_.ok()) status_ = lt_.Check(status, what);
  }
  const absl::Status& status() const { return status_; }

 private:
  const CublasLt& lt_;
  absl::Status status_;
};

// The library's objects for a call.
struct Descriptors {
  LtObject<LtDesc> desc;
  LtObject<LtLayout> a, b, c, d;
};

absl::StatusOr<LtObject<LtLayout>> LayoutOf(const CublasLt& lt, const ProductForm& form,
                                            const ProductForm::Matrix& matrix) {
  LtLayout made = nullptr;
  KILN_RETURN_IF_ERROR(lt.Check(
      lt.cublasLtMatrixLayoutCreate(&made, TypeOf(form.type), static_cast<uint64_t>(matrix.rows),
                                    static_cast<uint64_t>(matrix.columns), matrix.ld),
      "a layout"));
  LtObject<LtLayout> layout(made, lt.cublasLtMatrixLayoutDestroy);
  if (form.batch == 1) return layout;
  const auto batch = static_cast<int32_t>(form.batch);
  Calls calls(lt);
  calls.Add(lt.cublasLtMatrixLayoutSetAttribute(made, kLtLayoutBatchCount, &batch, sizeof batch),
            "a batch");
  calls.Add(lt.cublasLtMatrixLayoutSetAttribute(made, kLtLayoutBatchStep, &matrix.step,
                                                sizeof matrix.step),
            "a batch");
  KILN_RETURN_IF_ERROR(calls.status());
  return layout;
}

absl::StatusOr<Descriptors> Describe(const CublasLt& lt, const ProductForm& form) {
  const bool f64 = form.type == DType::kF64;
  LtDesc made = nullptr;
  KILN_RETURN_IF_ERROR(
      lt.Check(lt.cublasLtMatmulDescCreate(&made, f64 ? kLtCompute64F : kLtCompute32F,
                                           f64 ? kLtR64F : kLtR32F),
               "a product"));
  Descriptors all;
  all.desc = LtObject<LtDesc>(made, lt.cublasLtMatmulDescDestroy);
  const int32_t transposed_a = form.a.transposed ? 1 : 0, transposed_b = form.b.transposed ? 1 : 0;
  uint32_t epilogue = 0;
  if (form.relu || form.gelu) epilogue = form.relu ? kLtEpilogueRelu : kLtEpilogueGelu;
  if (form.bias >= 0) epilogue |= kLtEpilogueBias;
  if (epilogue == 0) epilogue = kLtEpilogueDefault;
  Calls calls(lt);
  const auto set = [&](LtDescAttribute attribute, const void* value, size_t bytes) {
    calls.Add(lt.cublasLtMatmulDescSetAttribute(made, attribute, value, bytes), "a product");
  };
  set(kLtDescTransA, &transposed_a, sizeof transposed_a);
  set(kLtDescTransB, &transposed_b, sizeof transposed_b);
  set(kLtDescEpilogue, &epilogue, sizeof epilogue);
  KILN_RETURN_IF_ERROR(calls.status());
  KILN_ASSIGN_OR_RETURN(all.a, LayoutOf(lt, form, form.a));
  KILN_ASSIGN_OR_RETURN(all.b, LayoutOf(lt, form, form.b));
  KILN_ASSIGN_OR_RETURN(all.c, LayoutOf(lt, form, form.c));
  KILN_ASSIGN_OR_RETURN(all.d, LayoutOf(lt, form, form.d));
  return all;
}

absl::Status SetBias(const CublasLt& lt, LtDesc desc, const void* bias) {
  return lt.Check(lt.cublasLtMatmulDescSetAttribute(desc, kLtDescBiasPointer, &bias, sizeof bias),
                  "a bias");
}

struct ProductState final : library::CallState {
  absl::StatusOr<Descriptors> descriptors = absl::InternalError("none");
};

class ProductPrimitive final : public library::Primitive {
 public:
  ProductPrimitive(std::shared_ptr<Products> products, ProductForm form,
                   Products::Algorithms algorithms)
      : products_(std::move(products)), form_(std::move(form)), algorithms_(algorithms) {}

  std::string description() const override {
    return absl::StrCat("cuBLASLt ", products_->lt().version());
  }
  std::unique_ptr<library::CallState> NewState() const override {
    auto state = std::make_unique<ProductState>();
    state->descriptors = Describe(products_->lt(), form_);
    return state;
  }

  absl::Status Run(const library::Arguments& arguments) const override {
    auto& queue = static_cast<LaunchQueue&>(*static_cast<DeviceQueue*>(arguments.context->stream));
    const std::unique_ptr<library::CallState> own = arguments.state ? nullptr : NewState();
    const auto& state = static_cast<const ProductState&>(arguments.state ? *arguments.state : *own);
    KILN_RETURN_IF_ERROR(state.descriptors.status());
    const Descriptors& all = *state.descriptors;
    if (form_.bias >= 0) {
      KILN_RETURN_IF_ERROR(SetBias(products_->lt(), all.desc.get(), arguments.inputs[form_.bias]));
    }
    // The library's A is the second operand.
    Operands at = {arguments.inputs[1], arguments.inputs[0],
                   form_.addend >= 0 ? arguments.inputs[form_.addend] : arguments.outputs[0],
                   arguments.outputs[0]};
    return RunLoops(0, at, all, queue);
  }

 private:
  using Operands = std::array<void*, 4>;  // A, B, C, D

  absl::Status RunLoops(size_t loop, Operands at, const Descriptors& all,
                        LaunchQueue& queue) const {
    if (loop == form_.loops.size()) return RunOne(at, all, queue);
    const ProductForm::Loop& steps = form_.loops[loop];
    const auto item = static_cast<int64_t>(SizeOf(form_.type));
    for (int64_t i = 0; i < steps.extent; ++i) {
      KILN_RETURN_IF_ERROR(RunLoops(loop + 1, at, all, queue));
      const int64_t of[] = {steps.a, steps.b, steps.c, steps.d};
      for (size_t k = 0; k < at.size(); ++k) at[k] = static_cast<uint8_t*>(at[k]) + of[k] * item;
    }
    return absl::OkStatus();
  }

  absl::Status RunOne(const Operands& at, const Descriptors& all, LaunchQueue& queue) const {
    uintptr_t bits = 0;
    for (const void* operand : at) bits |= reinterpret_cast<uintptr_t>(operand);
    const auto& algorithm =
        bits % Products::kAlignment == 0 ? algorithms_.aligned : algorithms_.any;
    if (!algorithm)
      return absl::InternalError("cuBLASLt: no algorithm for operands that are not aligned");
    DevicePointer workspace = 0;
    if (algorithm->workspace > 0) {
      KILN_ASSIGN_OR_RETURN(workspace, queue.Scratch(algorithm->workspace));
    }
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const bool f64 = form_.type == DType::kF64, adds = form_.addend >= 0;
    const void* const alpha = f64 ? static_cast<const void*>(&one64) : &one;
    const void* const none = f64 ? static_cast<const void*>(&zero64) : &zero;
    const CublasLt& lt = products_->lt();
    LtStatus status = kLtSuccess;
    KILN_RETURN_IF_ERROR(products_->gpu().Call("a product", [&] {
      status = lt.cublasLtMatmul(products_->handle(), all.desc.get(), alpha, at[0], all.a.get(),
                                 at[1], all.b.get(), adds ? alpha : none, at[2], all.c.get(), at[3],
                                 all.d.get(), &algorithm->algo, AsPointer(workspace),
                                 algorithm->workspace, queue.stream());
      return kSuccess;
    }));
    return lt.Check(status, "a product");
  }

  const std::shared_ptr<Products> products_;
  const ProductForm form_;
  const Products::Algorithms algorithms_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Products>> Products::Make(std::shared_ptr<Gpu> gpu,
                                                         std::shared_ptr<const CublasLt> lt) {
  std::shared_ptr<Products> made(new Products(std::move(gpu), std::move(lt)));
  LtStatus status = kLtSuccess;
  KILN_RETURN_IF_ERROR(made->gpu_->Call("cuBLASLt", [&] {
    status = made->lt_->cublasLtCreate(&made->handle_);
    return kSuccess;
  }));
  KILN_RETURN_IF_ERROR(made->lt_->Check(status, "its handle"));
  return made;
}

Products::~Products() {
  if (handle_ == nullptr) return;
  gpu_->Call("cuBLASLt",
             [&] {
               lt_->cublasLtDestroy(handle_);
               return kSuccess;
             })
      .IgnoreError();
}

int Products::queries() const {
  const MutexLock lock(mutex_);
  return queries_;
}

// An empty answer is one too: the library knows no way.
absl::StatusOr<std::optional<Products::Algorithm>> Products::Ask(const ProductForm& form,
                                                                 size_t alignment) {
  KILN_ASSIGN_OR_RETURN(const Descriptors all, Describe(*lt_, form));
  // The heuristics read the alignment off the address.
  if (form.bias >= 0)
    KILN_RETURN_IF_ERROR(SetBias(*lt_, all.desc.get(), reinterpret_cast<void*>(SizeOf(form.type))));
  LtPreference made = nullptr;
  KILN_RETURN_IF_ERROR(lt_->Check(lt_->cublasLtMatmulPreferenceCreate(&made), "a preference"));
  const LtObject<LtPreference> preference(made, lt_->cublasLtMatmulPreferenceDestroy);
  Calls calls(*lt_);
  const auto set = [&](LtPreferenceAttribute attribute, const void* value, size_t bytes) {
    calls.Add(lt_->cublasLtMatmulPreferenceSetAttribute(made, attribute, value, bytes),
              "a preference");
  };
  const uint32_t reductions = kLtReductionComputeType, bytes = static_cast<uint32_t>(alignment);
  set(kLtPreferenceWorkspace, &kMostWorkspace, sizeof kMostWorkspace);
  set(kLtPreferenceReductions, &reductions, sizeof reductions);
  for (const LtPreferenceAttribute of : {kLtPreferenceAlignmentA, kLtPreferenceAlignmentB,
                                         kLtPreferenceAlignmentC, kLtPreferenceAlignmentD})
    set(of, &bytes, sizeof bytes);
  KILN_RETURN_IF_ERROR(calls.status());
  std::array<LtHeuristic, kAsked> found{};
  int count = 0;
  LtStatus status = kLtSuccess;
  KILN_RETURN_IF_ERROR(gpu_->Call("cuBLASLt", [&] {
    status = lt_->cublasLtMatmulAlgoGetHeuristic(handle_, all.desc.get(), all.a.get(), all.b.get(),
                                                 all.c.get(), all.d.get(), made, kAsked,
                                                 found.data(), &count);
    return kSuccess;
  }));
  if (status == kLtNotSupported) return std::nullopt;
  KILN_RETURN_IF_ERROR(lt_->Check(status, "its heuristics"));
  for (int i = 0; i < count && i < kAsked; ++i) {
    const LtHeuristic& one = found[static_cast<size_t>(i)];
    if (one.state == kLtSuccess && one.workspace <= kMostWorkspace)
      return Algorithm{one.algo, one.workspace};
  }
  return std::nullopt;
}

absl::StatusOr<Products::Algorithms> Products::Choose(const ProductForm& form) {
  const std::string text = form.Text();
  const MutexLock lock(mutex_);
  if (const auto found = chosen_.find(text); found != chosen_.end()) return found->second;
  Algorithms made;
  ++queries_;
  KILN_ASSIGN_OR_RETURN(made.aligned, Ask(form, kAlignment));
  KILN_ASSIGN_OR_RETURN(made.any, Ask(form, SizeOf(form.type)));
  chosen_.emplace(text, made);
  return made;
}

absl::StatusOr<std::unique_ptr<library::Primitive>> Products::Product(
    const library::Request& request) {
  KILN_ASSIGN_OR_RETURN(ProductForm form, ProductFormOf(request));
  if (form.batch > INT32_MAX) return absl::UnimplementedError("more batches than 32 bits count");
  KILN_ASSIGN_OR_RETURN(const Algorithms algorithms, Choose(form));
  if (!algorithms.aligned)
    return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm for ", form.Text()));
  return std::make_unique<ProductPrimitive>(shared_from_this(), std::move(form), algorithms);
}

}  // namespace kiln::cuda
