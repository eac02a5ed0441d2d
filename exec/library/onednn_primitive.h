// SPDX-License-Identifier: Apache-2.0
// What the operators on oneDNN share: the session, the primitive that binds operands to a oneDNN
// primitive, and post-ops in oneDNN's terms. For onednn_*.cc alone: nothing else sees oneDNN.
//
// A primitive is made in two steps: a primitive descriptor chooses an implementation for layouts,
// then AddSlot binds each argument to an input or output of the request, with a reorder where the
// layouts differ and a packed copy where it is constant.
#ifndef KILN_EXEC_LIBRARY_ONEDNN_PRIMITIVE_H_
#define KILN_EXEC_LIBRARY_ONEDNN_PRIMITIVE_H_

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/bump_allocator.h"
#include "base/keyed_mutex.h"
#include "base/mutex.h"
#include "dnnl.hpp"
#include "exec/library/library.h"
#include "exec/library/omp_scope.h"

namespace kiln::library {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
inline constexpr auto kF32 = dnnl::memory::data_type::f32;
inline constexpr auto kAny = dnnl::memory::format_tag::any;

// The state of the calling thread that oneDNN may change or depends on, put back at the end.
class CallScope {
 public:
  explicit CallScope(const OmpPool& pool);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope();

 private:
  OmpScope omp_;
  unsigned csr_ = 0;
};

// Watches for the floating-point flag "invalid", on all threads that work for the calling one.
// Within a CallScope, which puts the flags back.
class InvalidWatch {
 public:
  InvalidWatch();
  InvalidWatch(const InvalidWatch&) = delete;
  InvalidWatch& operator=(const InvalidWatch&) = delete;
  ~InvalidWatch();
  // Whether it has been raised since.
  bool Raised() const;

 private:
  bool by_others_ = false;
};

// One packed copy of a constant per layout, kept while a primitive uses it.
struct PackedWeights {
  const void* source;
  Desc from, to;
  std::weak_ptr<dnnl::memory> memory;
};

struct PackedStore {
  explicit PackedStore(PackedConstants* k) : kept(k) {}
  PackedConstants* const kept;                              // of earlier processes; null: none
  KeyedMutex<std::pair<const void*, std::string>> packing;  // by constant and layout
  Mutex mutex;
  std::vector<PackedWeights> packed ABSL_GUARDED_BY(mutex);
  std::map<std::pair<const void*, std::string>, std::weak_ptr<const void>> layouts
      ABSL_GUARDED_BY(mutex);  // not oneDNN's
  BumpAllocator allocator ABSL_GUARDED_BY(mutex);

  // Memory for a packed constant; null: there is none.
  std::shared_ptr<void> Take(size_t bytes) {
    const MutexLock lock(mutex);
    return allocator.Take(bytes);
  }
};

// Thrown within OneDnnSession::Call: a constant cannot be read.
struct Damaged {
  absl::Status status;
};

// A fork waits while one of these lives; up to 64 do at once, others wait for them.
class WholeBeforeForks {
 public:
  WholeBeforeForks();
  WholeBeforeForks(const WholeBeforeForks&) = delete;
  WholeBeforeForks& operator=(const WholeBeforeForks&) = delete;
  ~WholeBeforeForks();

 private:
  Mutex* held_ = nullptr;
};

// make(), which makes a descriptor or a primitive. oneDNN has locks of its own meanwhile, and
// others wait for what one thread generates: a fork waits until it is made, so that a child does
// not wait for ever.
template <typename Make>
auto Undivided(Make&& make) -> decltype(make()) {
  const WholeBeforeForks whole;
  return make();
}

class OneDnnSession final : public Session {
 public:
  OneDnnSession(kiln::Pool* pool, std::shared_ptr<PackedStore> store)
      : engine_(dnnl::engine::kind::cpu, 0), given_(pool), pool_(pool), store_(std::move(store)) {}
  const dnnl::engine& engine() const { return engine_; }

  std::shared_ptr<Session> Serial() const override {
    return std::make_shared<OneDnnSession>(nullptr, store_);
  }

  std::shared_ptr<Session> Unkept() const override {
    return std::make_shared<OneDnnSession>(given_, std::make_shared<PackedStore>(nullptr));
  }

  int threads() const override { return pool_.openmp_pool()->threads; }

  absl::StatusOr<std::shared_ptr<const void>> Packed(
      const void* constant, size_t bytes, const std::string& layout, size_t packed_bytes,
      absl::FunctionRef<void(void* packed)> pack) override;
  absl::Status CheckConstant(const void* constant, size_t bytes) override;

  // Calls f in a CallScope; exceptions become a Status.
  template <typename F>
  auto Call(F&& f) -> decltype(f()) {
    // A primitive is made for an exact number of threads.
    if (!pool_.Ready()) {
      return absl::ResourceExhaustedError(absl::StrCat("oneDNN: the system gives no ",
                                                       pool_.openmp_pool()->threads,
                                                       " threads; run with fewer"));
    }
    const CallScope scope(pool_);
    try {
      return f();
    } catch (const dnnl::error& e) {
      const std::string text = absl::StrCat("oneDNN: ", e.what());
      if (e.status == dnnl_unimplemented) return absl::UnimplementedError(text);
      // A runtime error: there are no pages for the code of a primitive.
      if (e.status == dnnl_out_of_memory || e.status == dnnl_runtime_error)
        return absl::ResourceExhaustedError(text);
      return absl::InternalError(text);
    } catch (const Damaged& e) {
      return e.status;
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("oneDNN: out of memory");
    } catch (const std::exception& e) {
      return absl::InternalError(absl::StrCat("oneDNN: ", e.what()));
    }
  }

  // The elements at `source` in layout `to`. Within Call, which answers with Damaged's status.
  std::shared_ptr<dnnl::memory> Pack(const void* source, const Desc& from, const Desc& to);

 private:
  std::shared_ptr<dnnl::memory> FindPacked(const void* source, const Desc& from, const Desc& to);
  std::shared_ptr<dnnl::memory> MakePacked(const void* source, const Desc& from, const Desc& to);
  dnnl::engine engine_;
  kiln::Pool* const given_;  // null: none
  const OmpPool pool_;
  const std::shared_ptr<PackedStore> store_;
};

// An operand of a primitive: the caller's memory, used as it is or through a reorder into scratch;
// or a packed constant.
struct Slot {
  enum class From : uint8_t { kInput, kOutput, kConstant };
  From from = From::kInput;
  int index = 0;
  int id = 0;
  Desc user;  // the caller's layout
  Desc own;   // the primitive's layout; `user` again when the layouts agree
  std::optional<dnnl::reorder> reorder;
  int64_t scratch = -1;  // offset of the operand in `own` in the scratch, when it is reordered
  std::shared_ptr<dnnl::memory> packed;
};

class OneDnnPrimitive final : public Primitive {
 public:
  explicit OneDnnPrimitive(std::shared_ptr<OneDnnSession> session) : session_(std::move(session)) {}

  // Declares that argument `id` has layout `own` and comes from input or output `index`, where it
  // has layout `user`.
  void AddSlot(int id, Slot::From from, int index, const Desc& user, const Desc& own,
               const void* constant);

  // The primitive itself, and its scratchpad.
  void SetPrimitive(dnnl::primitive primitive, const Desc& scratchpad);

  // oneDNN's maximum and minimum drop a NaN, but raise the invalid flag: a run that raised it is
  // repeated without post-ops in oneDNN, and with loops for them.
  void RepeatWithout(const Operator& op, Request request);

  // The primitive sums into its output: input `k`, dense and of as many bytes, is there before.
  void SumInto(size_t k, size_t bytes) { sum_ = {k, bytes}; }

  void Describe(std::string text) { description_ = std::move(text); }
  std::string description() const override { return description_; }
  int64_t scratch_bytes() const override { return scratch_bytes_; }
  int64_t packed_bytes() const override { return packed_bytes_; }
  bool ReadsInput(size_t k) const override;
  std::optional<size_t> in_place() const override {
    return sum_ ? std::optional(sum_->first) : std::nullopt;
  }

  std::unique_ptr<CallState> NewState() const override;
  absl::Status Run(const Arguments& a) const override;

 private:
  class State;
  absl::Status RunOnce(const Arguments& a, State& state, bool& invalid) const;
  absl::Status Repeat(Arguments a, State& state) const;
  int64_t Reserve(const Desc& desc);

  std::shared_ptr<OneDnnSession> session_;
  dnnl::primitive primitive_;
  std::vector<Slot> slots_;
  Desc scratchpad_;
  int64_t scratchpad_at_ = -1;
  int64_t scratch_bytes_ = 0;
  int64_t packed_bytes_ = 0;
  std::optional<std::pair<size_t, size_t>> sum_;  // input, bytes
  std::string description_;
  std::function<absl::StatusOr<std::unique_ptr<Primitive>>()> make_repeat_;
};

// kUnimplemented unless all operands are f32 and have elements.
absl::Status TakesOperands(const Request& request);

dnnl::primitive_attr StrictAttributes();

// oneDNN wants every element in a place of its own: positive strides, each at least the span of the
// smaller ones.
bool TakesStrides(const Dims& dims, const Dims& strides);

// Strides of extent-1 axes mean nothing but can put oneDNN off a fast path: they become those of a
// dense operand.
Dims Tidy(const Dims& dims, Dims strides);

// Code that oneDNN generates raises flags as processors do; its plain loops need not.
bool IsGenerated(absl::string_view implementation);

// Whether oneDNN would run an operator with these post-ops as a plain loop, as it does for operands
// of whole tensors in most of its own layouts: 100 times slower than the operator and a loop.
bool LosesByPostOps(absl::string_view implementation, const std::vector<PostOp>& post_ops);

// Whether one of them loses a NaN in oneDNN's form.
bool MayDropNan(const std::vector<PostOp>& post_ops);

// Post-ops of a primitive about to be made: those that oneDNN runs, in its terms.
struct Epilogue {
  bool bias = false;  // the first post-op adds a vector over the channels: the primitive's own bias
  bool sum = false;   // the first of the others adds what the output's memory holds before
  std::vector<PostOp> post_ops;  // the others
  std::vector<Desc> operands;    // of `post_ops`, in order
  size_t first_operand = 0;      // the request's input that is the bias, or operands[0]
};

// Strict attributes with the epilogue's post-ops.
dnnl::primitive_attr AttributesOf(const Epilogue& epilogue);

// Binds the operands of the epilogue's post-ops.
void AddOperands(const Epilogue& epilogue, OneDnnPrimitive& primitive);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_ONEDNN_PRIMITIVE_H_
