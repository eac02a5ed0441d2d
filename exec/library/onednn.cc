// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/library/onednn.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dnnl.hpp"
#include "kiln/base/status_macros.h"
#include "kiln/exec/library/omp_scope.h"
#include "kiln/exec/library/reference_conv.h"
#include "kiln/exec/library/reference_matmul.h"
#include "kiln/exec/library/shapes.h"

namespace kiln::library {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr auto kAny = dnnl::memory::format_tag::any;

// The state of the calling thread that oneDNN may change or depends on, put back at the end.
class CallScope {
 public:
  explicit CallScope(const OmpPool& pool) : omp_(pool) {}
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope() {
#if defined(__SSE__)
    _mm_setcsr(csr_);
#endif
  }

 private:
  OmpScope omp_;
#if defined(__SSE__)
  unsigned csr_ = _mm_getcsr();
#endif
};

// One packed copy of a constant per layout, kept while a primitive uses it.
struct PackedWeights {
  const void* source;
  Desc from, to;
  std::weak_ptr<dnnl::memory> memory;
};

// Packed constants of all sessions of a Model: a layout does not depend on threads.
struct PackedStore {
  std::mutex mutex;
  std::vector<PackedWeights> packed;
};

class OneDnnSession final : public Session {
 public:
  OneDnnSession(kiln::Pool* pool, std::shared_ptr<PackedStore> store)
      : engine_(dnnl::engine::kind::cpu, 0), pool_(pool), store_(std::move(store)) {}
  const dnnl::engine& engine() const { return engine_; }

  std::shared_ptr<Session> Serial() const override {
    return std::make_shared<OneDnnSession>(nullptr, store_);
  }

  // Calls f in a CallScope; exceptions become a Status.
  template <typename F>
  auto Call(F&& f) -> decltype(f()) {
    // A primitive is made for an exact number of threads.
    if (!pool_.Ready()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "oneDNN: the system gives no ", pool_.komp()->threads, " threads; run with fewer"));
    }
    const CallScope scope(pool_);
    try {
      return f();
    } catch (const dnnl::error& e) {
      const std::string text = absl::StrCat("oneDNN: ", e.what());
      if (e.status == dnnl_unimplemented) return absl::UnimplementedError(text);
      if (e.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(text);
      return absl::InternalError(text);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("oneDNN: out of memory");
    } catch (const std::exception& e) {
      return absl::InternalError(absl::StrCat("oneDNN: ", e.what()));
    }
  }

  // The elements at `source` in layout `to`. Within Call.
  std::shared_ptr<dnnl::memory> Pack(const void* source, const Desc& from, const Desc& to) {
    const std::lock_guard<std::mutex> lock(store_->mutex);
    std::erase_if(store_->packed, [](const PackedWeights& p) { return p.memory.expired(); });
    for (const PackedWeights& p : store_->packed) {
      if (p.source != source || p.from != from || p.to != to) continue;
      if (std::shared_ptr<dnnl::memory> memory = p.memory.lock()) return memory;
    }
    dnnl::memory raw(from, engine_, const_cast<void*>(source));
    auto memory = std::make_shared<dnnl::memory>(to, engine_);
    dnnl::stream stream(engine_);
    dnnl::reorder(raw, *memory).execute(stream, raw, *memory);
    stream.wait();
    store_->packed.push_back({source, from, to, memory});
    return memory;
  }

 private:
  dnnl::engine engine_;
  const OmpPool pool_;
  const std::shared_ptr<PackedStore> store_;
};

// An operand of a primitive: the caller's memory, used as it is or through a reorder into scratch;
// or a packed constant.
struct Slot {
  enum class From : uint8_t { kInput, kOutput, kConstant };
  From from = From::kInput;
  int index = 0;
  dnnl::memory user;  // the caller's layout
  dnnl::memory own;   // the primitive's layout; `user` again when the layouts agree
  std::optional<dnnl::reorder> reorder;
  int64_t scratch = -1;  // offset of `own` in the scratch, when it is reordered
  std::shared_ptr<dnnl::memory> packed;
  const void* bound = nullptr;  // what `user` points to
};

int64_t RoundUp(int64_t n) { return (n + 63) / 64 * 64; }

class OneDnnPrimitive final : public Primitive {
 public:
  explicit OneDnnPrimitive(std::shared_ptr<OneDnnSession> session) : session_(std::move(session)) {}

  // Declares that argument `id` has layout `own` and comes from input or output `index`, where it
  // has layout `user`.
  void AddSlot(int id, Slot::From from, int index, const Desc& user, const Desc& own,
               const void* constant) {
    const dnnl::engine& engine = session_->engine();
    Slot slot;
    slot.from = from;
    slot.index = index;
    if (constant != nullptr && user != own) {
      slot.from = Slot::From::kConstant;
      slot.packed = session_->Pack(constant, user, own);
      packed_bytes_ += static_cast<int64_t>(own.get_size());
      slot.own = *slot.packed;
    } else {
      slot.user = dnnl::memory(user, engine, DNNL_MEMORY_NONE);
      slot.own = slot.user;
      if (user != own) {
        slot.own = dnnl::memory(own, engine, DNNL_MEMORY_NONE);
        slot.reorder = from == Slot::From::kInput ? dnnl::reorder(slot.user, slot.own)
                                                  : dnnl::reorder(slot.own, slot.user);
        slot.scratch = Reserve(own);
      }
    }
    arguments_.push_back({id, slot.own.get()});
    slots_.push_back(std::move(slot));
  }

  void SetPrimitive(dnnl::primitive primitive, const Desc& scratchpad) {
    primitive_ = std::move(primitive);
    stream_ = dnnl::stream(session_->engine());
    if (scratchpad.get_size() == 0) return;
    scratchpad_ = dnnl::memory(scratchpad, session_->engine(), DNNL_MEMORY_NONE);
    scratchpad_at_ = Reserve(scratchpad);
    arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
  }

  int64_t scratch_bytes() const override { return scratch_bytes_; }
  int64_t packed_bytes() const override { return packed_bytes_; }

  absl::Status Run(const Arguments& a) override {
    return session_->Call([&] {
      auto* scratch = static_cast<uint8_t*>(a.scratch);
      for (Slot& slot : slots_) {
        if (slot.from == Slot::From::kConstant) continue;
        const void* user = (slot.from == Slot::From::kInput ? a.inputs : a.outputs)[slot.index];
        if (slot.bound != user) slot.user.set_data_handle(const_cast<void*>(user));
        slot.bound = user;
        if (!slot.reorder) continue;
        if (scratch_ != scratch) slot.own.set_data_handle(scratch + slot.scratch);
        if (slot.from == Slot::From::kInput) slot.reorder->execute(stream_, slot.user, slot.own);
      }
      if (scratchpad_at_ >= 0 && scratch_ != scratch)
        scratchpad_.set_data_handle(scratch + scratchpad_at_);
      scratch_ = scratch;
      Execute();
      for (Slot& slot : slots_) {
        if (slot.reorder && slot.from == Slot::From::kOutput)
          slot.reorder->execute(stream_, slot.own, slot.user);
      }
      stream_.wait();
      return absl::OkStatus();
    });
  }

 private:
  // The C function takes the arguments as they lie here; the C++ one copies them at each call.
  void Execute() {
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                               arguments_.data()),
        "could not execute a primitive");
  }

  int64_t Reserve(const Desc& desc) {
    const int64_t at = scratch_bytes_;
    scratch_bytes_ += RoundUp(static_cast<int64_t>(desc.get_size()));
    return at;
  }

  std::shared_ptr<OneDnnSession> session_;
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<Slot> slots_;
  std::vector<dnnl_exec_arg_t> arguments_;  // handles that slots_ and scratchpad_ own
  const uint8_t* scratch_ = nullptr;        // that the handles point into
  dnnl::memory scratchpad_;
  int64_t scratchpad_at_ = -1;
  int64_t scratch_bytes_ = 0;
  int64_t packed_bytes_ = 0;
};

dnnl::primitive_attr StrictAttributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);  // whatever the environment says
  return attributes;
}

// oneDNN wants every element in a place of its own: positive strides, each at least the span of the
// smaller ones.
bool TakesStrides(const Dims& dims, const Dims& strides) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] > 1) axes.emplace_back(strides[i], dims[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t least = 1;
  for (const auto& [stride, extent] : axes) {
    if (stride < least) return false;
    least = stride * extent;
  }
  return true;
}

// Strides of extent-1 axes mean nothing but can put oneDNN off a fast path: they become those of a
// dense operand.
Dims Tidy(const Dims& dims, Dims strides) {
  int64_t span = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) strides[i] = span;
    span = std::max(span, strides[i] * dims[i]);
  }
  return strides;
}

// ---- matmul

struct MatmulDescs {
  Dims a, b, c, a_strides, b_strides, c_strides;
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
  const bool takes = d.c.size() <= DNNL_MAX_NDIMS && TakesStrides(d.a, d.a_strides) &&
                     TakesStrides(d.b, d.b_strides) && TakesStrides(d.c, d.c_strides);
  if (!takes) return std::nullopt;
  d.a_strides = Tidy(d.a, d.a_strides);
  d.b_strides = Tidy(d.b, d.b_strides);
  d.c_strides = Tidy(d.c, d.c_strides);
  return d;
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeOneDnnMatmul(
    const MatmulDescs& d, const void* constant_b, const std::shared_ptr<OneDnnSession>& session) {
  return session->Call([&]() -> absl::StatusOr<std::unique_ptr<Primitive>> {
    const Desc a(d.a, kF32, d.a_strides), b(d.b, kF32, d.b_strides), c(d.c, kF32, d.c_strides);
    const Desc wanted_b = constant_b != nullptr ? Desc(d.b, kF32, kAny) : b;
    const dnnl::matmul::primitive_desc pd(session->engine(), a, wanted_b, c, StrictAttributes());
    auto primitive = std::make_unique<OneDnnPrimitive>(session);
    primitive->AddSlot(DNNL_ARG_SRC, Slot::From::kInput, 0, a, pd.src_desc(), nullptr);
    primitive->AddSlot(DNNL_ARG_WEIGHTS, Slot::From::kInput, 1, b, pd.weights_desc(), constant_b);
    primitive->AddSlot(DNNL_ARG_DST, Slot::From::kOutput, 0, c, pd.dst_desc(), nullptr);
    primitive->SetPrimitive(dnnl::matmul(pd), pd.scratchpad_desc());
    return primitive;
  });
}

// ---- convolution

struct ConvDescs {
  Desc x, w, y;
  std::optional<Desc> bias;
  Dims strides, dilations, pads_begin, pads_end;
};

absl::StatusOr<ConvDescs> DescribeConv(const Request& request, const ConvForm& form,
                                       bool transposed) {
  ConvDescs d;
  const auto describe = [](const Operand& operand) -> absl::StatusOr<Desc> {
    if (!TakesStrides(operand.shape, operand.strides)) {
      return absl::UnimplementedError("strides that overlap are not supported; copy the operand");
    }
    return Desc(operand.shape, kF32, Tidy(operand.shape, operand.strides));
  };
  KILN_ASSIGN_OR_RETURN(d.x, describe(request.inputs[0]));
  KILN_RETURN_IF_ERROR(describe(request.inputs[1]).status());
  KILN_ASSIGN_OR_RETURN(d.y, describe(request.outputs[0]));
  if (request.inputs.size() > 2 && request.inputs[2].present) {
    KILN_ASSIGN_OR_RETURN(d.bias, describe(request.inputs[2]));
  }
  // oneDNN's weights are [g, out, in, K...] (without g for one group); ONNX's transposed ones [g *
  // in, out, K...].
  const Operand& w = request.inputs[1];
  Dims dims, strides;
  if (form.groups > 1) {
    dims.push_back(form.groups);
    strides.push_back(w.strides[0] * (transposed ? form.in_channels : form.out_channels));
  }
  dims.insert(dims.end(), {form.out_channels, form.in_channels});
  strides.insert(strides.end(), {w.strides[transposed ? 1 : 0], w.strides[transposed ? 0 : 1]});
  dims.insert(dims.end(), w.shape.begin() + 2, w.shape.end());
  strides.insert(strides.end(), w.strides.begin() + 2, w.strides.end());
  d.w = Desc(dims, kF32, Tidy(dims, strides));
  for (const WindowAxis& axis : form.axes) {
    d.strides.push_back(axis.stride);
    d.dilations.push_back(axis.dilation - 1);
    d.pads_begin.push_back(axis.pad_begin);
    d.pads_end.push_back(axis.pad_end);
  }
  return d;
}

// oneDNN's own choice of layout, with the logical dims of `d`.
Desc AnyLayout(const Desc& d) { return Desc(d.get_dims(), kF32, kAny); }

// Activations go through a reorder to oneDNN's layout and back, which pays (3x3, depthwise: 2 to 6
// times) except where the convolution is a plain matrix product over dense rows of pixels.
bool IsMatrixProduct(const Request& request, const ConvForm& form) {
  const auto point = [](const WindowAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
  };
  const auto dense = [](const Operand& operand) {
    int64_t span = 1;
    for (size_t i = operand.shape.size(); i-- > 0; span *= operand.shape[i]) {
      if (operand.shape[i] != 1 && operand.strides[i] != span) return false;
    }
    return true;
  };
  return form.groups == 1 && std::all_of(form.axes.begin(), form.axes.end(), point) &&
         dense(request.inputs[0]) && dense(request.outputs[0]);
}

template <typename PrimitiveDesc>
PrimitiveDesc MakeConvDesc(const dnnl::engine& engine, dnnl::algorithm algorithm,
                           const ConvDescs& d, bool keep_layout) {
  const auto kind = dnnl::prop_kind::forward_inference;
  const Desc x = keep_layout ? d.x : AnyLayout(d.x), y = keep_layout ? d.y : AnyLayout(d.y);
  if (d.bias) {
    return PrimitiveDesc(engine, kind, algorithm, x, AnyLayout(d.w), *d.bias, y, d.strides,
                         d.dilations, d.pads_begin, d.pads_end, StrictAttributes());
  }
  return PrimitiveDesc(engine, kind, algorithm, x, AnyLayout(d.w), y, d.strides, d.dilations,
                       d.pads_begin, d.pads_end, StrictAttributes());
}

// Drops axes along which there is one point and nothing slides. oneDNN works along the last axis: a
// network over [n, c, 512, 1] runs twice as fast as one over [n, c, 512].
void DropPointAxes(Request& request, ConvForm& form) {
  for (size_t i = form.axes.size(); i-- > 0 && form.axes.size() > 1;) {
    const WindowAxis& axis = form.axes[i];
    if (axis.in != 1 || axis.out != 1 || axis.kernel != 1) continue;
    for (Operand* operand : {&request.inputs[0], &request.inputs[1], &request.outputs[0]}) {
      operand->shape.erase(operand->shape.begin() + static_cast<ptrdiff_t>(i) + 2);
      operand->strides.erase(operand->strides.begin() + static_cast<ptrdiff_t>(i) + 2);
    }
    form.axes.erase(form.axes.begin() + static_cast<ptrdiff_t>(i));
  }
}

template <typename Convolution>
absl::StatusOr<std::unique_ptr<Primitive>> MakeAnyConv(
    Request request, dnnl::algorithm algorithm, bool transposed,
    const std::shared_ptr<Session>& any_session) {
  const auto session = std::static_pointer_cast<OneDnnSession>(any_session);
  KILN_ASSIGN_OR_RETURN(ConvForm form, NormalizeConv(request, transposed));
  DropPointAxes(request, form);
  const Operand& x = request.inputs[0];
  const bool empty = std::count(x.shape.begin(), x.shape.end(), 0) > 0;
  if (x.type == DType::kBool)
    return absl::UnimplementedError("type bool is not supported; cast to a number");
  if (x.type != DType::kF32 || empty) return MakeReferenceConv(request, form, transposed);
  return session->Call([&]() -> absl::StatusOr<std::unique_ptr<Primitive>> {
    KILN_ASSIGN_OR_RETURN(const ConvDescs d, DescribeConv(request, form, transposed));
    const bool keep_layout = !transposed && IsMatrixProduct(request, form);
    const auto pd = MakeConvDesc<typename Convolution::primitive_desc>(session->engine(), algorithm,
                                                                       d, keep_layout);
    auto primitive = std::make_unique<OneDnnPrimitive>(session);
    primitive->AddSlot(DNNL_ARG_SRC, Slot::From::kInput, 0, d.x, pd.src_desc(), nullptr);
    primitive->AddSlot(DNNL_ARG_WEIGHTS, Slot::From::kInput, 1, d.w, pd.weights_desc(),
                       request.inputs[1].constant);
    if (d.bias)
      primitive->AddSlot(DNNL_ARG_BIAS, Slot::From::kInput, 2, *d.bias, pd.bias_desc(), nullptr);
    primitive->AddSlot(DNNL_ARG_DST, Slot::From::kOutput, 0, d.y, pd.dst_desc(), nullptr);
    primitive->SetPrimitive(Convolution(pd), pd.scratchpad_desc());
    return primitive;
  });
}

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> Session::Create(kiln::Pool* pool) {
  try {
    return std::make_shared<OneDnnSession>(pool, std::make_shared<PackedStore>());
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("oneDNN: no CPU engine: ", e.what()));
  }
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeMatmul(const Request& request,
                                                      const std::shared_ptr<Session>& session) {
  KILN_ASSIGN_OR_RETURN(MatmulForm form, NormalizeMatmul(request));
  const DType type = request.inputs[0].type;
  if (type == DType::kBool)
    return absl::UnimplementedError("type bool is not supported; cast to a number");
  const std::optional<MatmulDescs> descs =
      type == DType::kF32 && form.k > 0 ? DescribeMatmul(form) : std::optional<MatmulDescs>();
  if (descs) {
    absl::StatusOr<std::unique_ptr<Primitive>> made = MakeOneDnnMatmul(
        *descs, request.inputs[1].constant, std::static_pointer_cast<OneDnnSession>(session));
    if (!absl::IsUnimplemented(made.status())) return made;
  }
  return MakeReferenceMatmul(type, std::move(form));
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConv(const Request& request,
                                                    const std::shared_ptr<Session>& session) {
  return MakeAnyConv<dnnl::convolution_forward>(request, dnnl::algorithm::convolution_direct, false,
                                                session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeConvTranspose(
    const Request& request, const std::shared_ptr<Session>& session) {
  return MakeAnyConv<dnnl::deconvolution_forward>(request, dnnl::algorithm::deconvolution_direct,
                                                  true, session);
}

}  // namespace kiln::library
