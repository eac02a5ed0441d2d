// SPDX-License-Identifier: Apache-2.0
#include "exec/library/onednn_primitive.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "exec/library/post_ops.h"
#include "exec/library/shapes.h"
#include "exec/packed_constants.h"

namespace kiln::library {
namespace {

// Whose code oneDNN keeps: that of the plans of several models.
constexpr int kKeptPrimitives = 1024;  // compile time

int64_t RoundUp(int64_t n) { return (n + 63) / 64 * 64; }

// Post-ops as attributes of a primitive. The operand of the k-th has argument id
// ArgumentOf(k); `operands` are their layouts in terms of the primitive's output.
// `sum`: the first is a sum with what is in the output's place.
dnnl::post_ops Translate(const std::vector<PostOp>& post_ops, const std::vector<Desc>& operands,
                         bool sum) {
  using dnnl::algorithm;
  dnnl::post_ops made;
  size_t operand = 0;
  for (const PostOp& op : post_ops) {
    if (sum && made.len() == 0) {
      made.append_sum();
      ++operand;
      continue;
    }
    const auto number = [&](size_t i) { return static_cast<float>(op.numbers[i]); };
    const auto eltwise = [&](algorithm a, float alpha, float beta) {
      made.append_eltwise(a, alpha, beta);
    };
    if (op.name == "add") made.append_binary(algorithm::binary_add, operands[operand++]);
    if (op.name == "mul") made.append_binary(algorithm::binary_mul, operands[operand++]);
    if (op.name == "clip") eltwise(algorithm::eltwise_clip, number(0), number(1));
    if (op.name == "elu") eltwise(algorithm::eltwise_elu, number(0), 0);
    if (op.name == "gelu_erf") eltwise(algorithm::eltwise_gelu_erf, 0, 0);
    if (op.name == "gelu_tanh") eltwise(algorithm::eltwise_gelu_tanh, 0, 0);
    if (op.name == "hard_sigmoid") eltwise(algorithm::eltwise_hardsigmoid, number(0), number(1));
    if (op.name == "hard_swish") eltwise(algorithm::eltwise_hardswish, 1.0F / 6, 0.5F);
    if (op.name == "leaky_relu") eltwise(algorithm::eltwise_relu, number(0), 0);
    if (op.name == "linear") eltwise(algorithm::eltwise_linear, number(0), number(1));
    if (op.name == "relu") eltwise(algorithm::eltwise_relu, 0, 0);
    if (op.name == "sigmoid") eltwise(algorithm::eltwise_logistic, 0, 0);
    if (op.name == "swish") eltwise(algorithm::eltwise_swish, number(0), 0);
    if (op.name == "tanh") eltwise(algorithm::eltwise_tanh, 0, 0);
  }
  return made;
}

// All that there is to say of a layout; empty for one that only oneDNN knows.
std::string TextOf(const Desc& desc) {
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) return "";
  return absl::StrCat(
      static_cast<int>(desc.get_data_type()), " [", absl::StrJoin(desc.get_dims(), ","), "] in [",
      absl::StrJoin(desc.get_padded_dims(), ","), "] at [",
      absl::StrJoin(desc.get_padded_offsets(), ","), "] + ", desc.get_submemory_offset(),
      " strides [", absl::StrJoin(desc.get_strides(), ","), "] blocks [",
      absl::StrJoin(desc.get_inner_blks(), ","), "] of [",
      absl::StrJoin(desc.get_inner_idxs(), ","), "]");
}

int ArgumentOf(size_t post_op) {
  return DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(post_op)) | DNNL_ARG_SRC_1;
}

}  // namespace

CallScope::CallScope(const OmpPool& pool) : omp_(pool) {
#if defined(__SSE__)
  csr_ = _mm_getcsr();
#endif
}

CallScope::~CallScope() {
#if defined(__SSE__)
  _mm_setcsr(csr_);
#endif
}

InvalidWatch::InvalidWatch() {
#if defined(__SSE__)
  _MM_SET_EXCEPTION_STATE(0);
#endif
  kiln_omp_watch_invalid(&by_others_);
}

InvalidWatch::~InvalidWatch() { kiln_omp_watch_invalid(nullptr); }

bool InvalidWatch::Raised() const {
#if defined(__SSE__)
  if ((_MM_GET_EXCEPTION_STATE() & _MM_EXCEPT_INVALID) != 0) return true;
#endif
  return __atomic_load_n(&by_others_, __ATOMIC_RELAXED);
}

absl::StatusOr<std::shared_ptr<const void>> OneDnnSession::Packed(
    const void* constant, size_t bytes, const std::string& layout, size_t packed_bytes,
    absl::FunctionRef<void(void* packed)> pack) {
  const KeyedMutexLock packing(store_->packing, std::pair(constant, layout));
  {
    const MutexLock lock(store_->mutex);
    if (auto memory = store_->layouts[{constant, layout}].lock()) return memory;
  }
  const auto add = [&](const std::shared_ptr<const void>& memory) {
    const MutexLock lock(store_->mutex);
    store_->layouts[{constant, layout}] = memory;
    return memory;
  };
  if (store_->kept != nullptr) {
    if (auto found = store_->kept->Find(constant, bytes, layout, packed_bytes)) return add(found);
  }
  KILN_RETURN_IF_ERROR(CheckConstant(constant, bytes));
  const std::shared_ptr<void> memory = store_->Take(packed_bytes);
  if (memory == nullptr)
    return absl::ResourceExhaustedError(absl::StrCat("no ", packed_bytes, " bytes for weights"));
  pack(memory.get());
  if (store_->kept != nullptr) store_->kept->Keep(constant, bytes, layout, memory, packed_bytes);
  return add(memory);
}

absl::Status OneDnnSession::CheckConstant(const void* constant, size_t bytes) {
  return store_->kept == nullptr ? absl::OkStatus() : store_->kept->Check(constant, bytes);
}

WholeBeforeForks::WholeBeforeForks() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  // None of them on a stack, which a child does not keep (base/fork.h).
  static auto& mutexes = *new std::array<Mutex, 64>;
  for (Mutex& mutex : mutexes) {
    if (!mutex.TryLock()) continue;
    held_ = &mutex;
    return;
  }
  held_ = &mutexes[0];
  held_->Lock();
}

WholeBeforeForks::~WholeBeforeForks() ABSL_NO_THREAD_SAFETY_ANALYSIS { held_->Unlock(); }

std::shared_ptr<dnnl::memory> OneDnnSession::FindPacked(const void* source, const Desc& from,
                                                        const Desc& to) {
  const MutexLock lock(store_->mutex);
  std::erase_if(store_->packed, [](const PackedWeights& p) { return p.memory.expired(); });
  for (const PackedWeights& p : store_->packed) {
    if (p.source != source || p.from != from || p.to != to) continue;
    if (std::shared_ptr<dnnl::memory> memory = p.memory.lock()) return memory;
  }
  return nullptr;
}

std::shared_ptr<dnnl::memory> OneDnnSession::Pack(const void* source, const Desc& from,
                                                  const Desc& to) {
  // A layout that has no text is packed by one thread at a time.
  const KeyedMutexLock packing(store_->packing, std::pair(source, TextOf(to)));
  if (auto found = FindPacked(source, from, to)) return found;
  std::shared_ptr<dnnl::memory> memory = MakePacked(source, from, to);
  const MutexLock lock(store_->mutex);
  store_->packed.push_back({source, from, to, memory});
  return memory;
}

std::shared_ptr<dnnl::memory> OneDnnSession::MakePacked(const void* source, const Desc& from,
                                                        const Desc& to) {
  const std::string from_text = TextOf(from), to_text = TextOf(to);
  const bool keeps = store_->kept != nullptr && !from_text.empty() && !to_text.empty();
  const std::string layout =
      absl::StrCat("onednn ", DNNL_VERSION_HASH, " from ", from_text, " to ", to_text);
  if (keeps) {
    if (std::shared_ptr<const void> found =
            store_->kept->Find(source, from.get_size(), layout, to.get_size())) {
      auto* const mapped = new dnnl::memory(to, engine_, const_cast<void*>(found.get()));
      return {mapped, [found](const dnnl::memory* memory) { delete memory; }};
    }
  }
  if (absl::Status whole = CheckConstant(source, from.get_size()); !whole.ok())
    throw Damaged{std::move(whole)};
  dnnl::memory raw(from, engine_, const_cast<void*>(source));
  const std::shared_ptr<void> bytes = store_->Take(to.get_size());
  if (bytes == nullptr) throw std::bad_alloc();
  dnnl::memory packed(to, engine_, bytes.get());
  dnnl::stream stream(engine_);
  Undivided([&] { return dnnl::reorder(raw, packed); }).execute(stream, raw, packed);
  stream.wait();
  if (keeps) store_->kept->Keep(source, from.get_size(), layout, bytes, to.get_size());
  auto* const memory = new dnnl::memory(std::move(packed));
  return {memory, [bytes](const dnnl::memory* m) { delete m; }};
}

// Handles of the operands, which point to where the last run had them.
class OneDnnPrimitive::State final : public CallState {
 public:
  explicit State(const OneDnnPrimitive& primitive);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Points the handles to the arguments' memory.
  void Bind(const OneDnnPrimitive& primitive, const Arguments& a);
  void Execute(const dnnl::primitive& primitive) { Execute(primitive, arguments_); }
  void Reorder(const dnnl::reorder& reorder, const dnnl::memory& from, const dnnl::memory& to) {
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
    Execute(reorder, arguments);
  }

  struct Handle {
    dnnl::memory user, own;       // one and the same where the layouts agree
    const void* bound = nullptr;  // what `user` points to
  };
  dnnl::stream stream;
  std::vector<Handle> handles;        // one per slot
  std::unique_ptr<Primitive> repeat;  // made when first needed, with scratch of its own
  std::unique_ptr<CallState> repeat_state;
  std::vector<uint8_t> repeat_scratch;

 private:
  // The C function takes the arguments as they lie; the C++ ones copy them at each call.
  void Execute(const dnnl::primitive& primitive, absl::Span<const dnnl_exec_arg_t> arguments) {
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()),
                               arguments.data()),
        "could not execute a primitive");
  }

  std::vector<dnnl_exec_arg_t> arguments_;  // handles that are owned above and below
  dnnl::memory scratchpad_;
  const uint8_t* scratch_ = nullptr;  // that the handles point into
};

OneDnnPrimitive::State::State(const OneDnnPrimitive& primitive)
    : stream(primitive.session_->engine()) {
  const dnnl::engine& engine = primitive.session_->engine();
  for (const Slot& slot : primitive.slots_) {
    Handle& handle = handles.emplace_back();
    if (slot.from == Slot::From::kConstant) {
      handle.own = *slot.packed;
    } else {
      handle.user = dnnl::memory(slot.user, engine, DNNL_MEMORY_NONE);
      handle.own = slot.reorder ? dnnl::memory(slot.own, engine, DNNL_MEMORY_NONE) : handle.user;
    }
    arguments_.push_back({slot.id, handle.own.get()});
  }
  if (primitive.scratchpad_at_ < 0) return;
  scratchpad_ = dnnl::memory(primitive.scratchpad_, engine, DNNL_MEMORY_NONE);
  arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
}

void OneDnnPrimitive::State::Bind(const OneDnnPrimitive& primitive, const Arguments& a) {
  auto* scratch = static_cast<uint8_t*>(a.scratch);
  for (size_t i = 0; i < handles.size(); ++i) {
    const Slot& slot = primitive.slots_[i];
    Handle& handle = handles[i];
    if (slot.from == Slot::From::kConstant) continue;
    const void* user = (slot.from == Slot::From::kInput ? a.inputs : a.outputs)[slot.index];
    if (handle.bound != user) handle.user.set_data_handle(const_cast<void*>(user));
    handle.bound = user;
    if (slot.reorder && scratch_ != scratch) handle.own.set_data_handle(scratch + slot.scratch);
  }
  if (primitive.scratchpad_at_ >= 0 && scratch_ != scratch)
    scratchpad_.set_data_handle(scratch + primitive.scratchpad_at_);
  scratch_ = scratch;
}

void OneDnnPrimitive::AddSlot(int id, Slot::From from, int index, const Desc& user, const Desc& own,
                              const void* constant) {
  Slot slot;
  slot.from = from;
  slot.index = index;
  slot.id = id;
  slot.user = user;
  slot.own = own;
  if (constant != nullptr && user != own) {
    slot.from = Slot::From::kConstant;
    slot.packed = session_->Pack(constant, user, own);
    packed_bytes_ += static_cast<int64_t>(own.get_size());
  } else if (user != own) {
    const dnnl::engine& engine = session_->engine();
    const bool input = from == Slot::From::kInput;
    slot.reorder = Undivided([&] {
      return dnnl::reorder(
          dnnl::reorder::primitive_desc(engine, input ? user : own, engine, input ? own : user));
    });
    slot.scratch = Reserve(own);
  }
  slots_.push_back(std::move(slot));
}

bool OneDnnPrimitive::ReadsInput(size_t k) const {
  return std::none_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.from == Slot::From::kConstant && slot.index == static_cast<int>(k);
  });
}

void OneDnnPrimitive::SetPrimitive(dnnl::primitive primitive, const Desc& scratchpad) {
  primitive_ = std::move(primitive);
  if (scratchpad.get_size() == 0) return;
  scratchpad_ = scratchpad;
  scratchpad_at_ = Reserve(scratchpad);
}

void ForgetUnusedCode() {
  // Those that live own their code.
  Undivided([] {
    dnnl::set_primitive_cache_capacity(0);
    dnnl::set_primitive_cache_capacity(kKeptPrimitives);
  });
}

std::unique_ptr<CallState> OneDnnPrimitive::NewState() const {
  return std::make_unique<State>(*this);
}

absl::Status OneDnnPrimitive::Run(const Arguments& a) const {
  std::optional<State> own;
  auto* state = static_cast<State*>(a.state);
  if (state == nullptr) state = &own.emplace(*this);
  bool invalid = false;
  KILN_RETURN_IF_ERROR(RunOnce(a, *state, invalid));
  return invalid ? Repeat(a, *state) : absl::OkStatus();
}

absl::Status OneDnnPrimitive::RunOnce(const Arguments& a, State& state, bool& invalid) const {
  return session_->Call([&] {
    state.Bind(*this, a);
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].reorder && slots_[i].from == Slot::From::kInput)
        state.Reorder(*slots_[i].reorder, state.handles[i].user, state.handles[i].own);
    }
    if (sum_ && a.inputs[sum_->first] != a.outputs[0])
      std::memcpy(a.outputs[0], a.inputs[sum_->first], sum_->second);
    if (make_repeat_) {
      const InvalidWatch watch;
      state.Execute(primitive_);
      invalid = watch.Raised();
    } else {
      state.Execute(primitive_);
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].reorder && slots_[i].from == Slot::From::kOutput)
        state.Reorder(*slots_[i].reorder, state.handles[i].own, state.handles[i].user);
    }
    state.stream.wait();
    return absl::OkStatus();
  });
}

absl::Status OneDnnPrimitive::Repeat(Arguments a, State& state) const {
  if (state.repeat == nullptr) {
    KILN_ASSIGN_OR_RETURN(state.repeat, make_repeat_());
    state.repeat_state = state.repeat->NewState();
    state.repeat_scratch.resize(static_cast<size_t>(state.repeat->scratch_bytes()) + 64);
  }
  void* memory = state.repeat_scratch.data();
  size_t room = state.repeat_scratch.size();
  a.scratch = std::align(64, room - 63, memory, room);
  a.state = state.repeat_state.get();
  return state.repeat->Run(a);
}

void OneDnnPrimitive::RepeatWithout(const Operator& op, Request request) {
  make_repeat_ = [&op, request = std::move(request),
                  session = session_]() -> absl::StatusOr<std::unique_ptr<Primitive>> {
    for (const Operand& input : request.inputs) {  // of which the packed form alone was read
      if (input.constant == nullptr) continue;
      const auto bytes = static_cast<size_t>(Span(input)) * SizeOf(input.type);
      KILN_RETURN_IF_ERROR(session->CheckConstant(input.constant, bytes));
    }
    KILN_ASSIGN_OR_RETURN(auto alone, Make(op, WithoutPostOps(request), session));
    return WithPostOpLoops(std::move(alone), request);
  };
}

int64_t OneDnnPrimitive::Reserve(const Desc& desc) {
  const int64_t at = scratch_bytes_;
  scratch_bytes_ += RoundUp(static_cast<int64_t>(desc.get_size()));
  return at;
}

absl::Status TakesOperands(const Request& request) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  for (const Operand& operand : request.inputs) {
    if (operand.present && std::count(operand.shape.begin(), operand.shape.end(), 0) > 0)
      return absl::UnimplementedError("an operand has no elements");
  }
  return absl::OkStatus();
}

dnnl::primitive_attr StrictAttributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);  // whatever the environment says
  return attributes;
}

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

Dims Tidy(const Dims& dims, Dims strides) {
  int64_t span = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) strides[i] = span;
    span = std::max(span, strides[i] * dims[i]);
  }
  return strides;
}

bool IsGenerated(absl::string_view implementation) {
  return absl::StrContains(implementation, "brg") || absl::StrContains(implementation, "brdgmm") ||
         absl::StartsWith(implementation, "jit");
}

bool LosesByPostOps(absl::string_view implementation, const std::vector<PostOp>& post_ops) {
  return !post_ops.empty() && absl::StartsWith(implementation, "ref");
}

bool MayDropNan(const std::vector<PostOp>& post_ops) {
  return std::any_of(post_ops.begin(), post_ops.end(),
                     [](const PostOp& op) { return FindPostOp(op.name)->drops_nan; });
}

dnnl::primitive_attr AttributesOf(const Epilogue& epilogue) {
  dnnl::primitive_attr attributes = StrictAttributes();
  attributes.set_post_ops(Translate(epilogue.post_ops, epilogue.operands, epilogue.sum));
  return attributes;
}

void AddOperands(const Epilogue& epilogue, OneDnnPrimitive& primitive) {
  size_t operand = 0;
  for (size_t k = 0; k < epilogue.post_ops.size(); ++k) {
    if (!FindPostOp(epilogue.post_ops[k].name)->operand) continue;
    const Desc& desc = epilogue.operands[operand];
    const size_t input = epilogue.first_operand + (epilogue.bias ? 1 : 0) + operand++;
    if (epilogue.sum && k == 0) {
      primitive.SumInto(input, desc.get_size());
      continue;
    }
    primitive.AddSlot(ArgumentOf(k), Slot::From::kInput, static_cast<int>(input), desc, desc,
                      nullptr);
  }
}

std::shared_ptr<PackedStore> NewPackedStore(PackedConstants* kept) {
  return std::make_shared<PackedStore>(kept);
}

absl::StatusOr<std::shared_ptr<Session>> Session::Create(kiln::Pool* pool,
                                                         std::shared_ptr<PackedStore> store) {
  try {
    if (store == nullptr) store = NewPackedStore(nullptr);
    return std::make_shared<OneDnnSession>(pool, std::move(store));
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("oneDNN: no CPU engine: ", e.what()));
  }
}

}  // namespace kiln::library
