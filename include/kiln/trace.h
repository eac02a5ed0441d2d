// SPDX-License-Identifier: Apache-2.0
// trace(): a function of arrays that is recorded by its first call, and replayed as compiled
// programs by later ones.
//
//   kiln::Array Step(const kiln::Array& w, const kiln::Array& g) { return w - 0.1f * g; }
//   auto step = kiln::trace(Step);
//   w = step(w, g);                                    // records, then replays
//
// A call that diverges from its record is an error of that call (TraceError): its results carry it,
// with both operations and both source lines, and so does status(). No function here throws. One
// thread at a time calls a traced function. docs/trace.md has the semantics.
#ifndef KILN_TRACE_H_
#define KILN_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/array.h"
#include "kiln/options.h"
#include "kiln/status.h"
#include "kiln/trace_dump.h"

namespace kiln {

namespace tracing {
class CallCore;  // a call of a traced function
class Function;  // what a Traced has recorded
}  // namespace tracing

struct TraceOptions {
  std::string name = "trace";  // what messages call it
  // Recording runs nothing until the function returns; a read of a value that it computes is an
  // error.
  bool symbolic = false;
  // Arrays that the function takes from elsewhere than its arguments, and numbers in it, are part
  // of the record: others in a later call are an error. Programs have them as constants, which are
  // folded and packed: their memory (Array::of) is not to be written any more. Else they are
  // inputs: a later call computes with those that it finds.
  bool capture_as_const = false;
  // symbolic and capture_as_const, and no call runs anything: results have types and shapes alone.
  // Their status() is OK; a read of one, or an operation on it, is kFailedPrecondition.
  bool record_only = false;
  // Other extents of the arguments are recorded as variants, up to 16 of them, which share one
  // compiled program where their operations are the same; false: an error.
  bool symbolic_shape = true;
  // Each launch of each run is timed, for get_profile().
  bool profiling = false;
  // Graph level, jit level, passes by name, threads, cache: as for models (options.h).
  CompileOptions compile = BackgroundCompile();
};

// What a call of a traced function did that its record did not. A Status of a call has one of them
// (TraceErrorOf) and names both operations and both source lines.
enum class TraceError : int {
  kOperation,         // another operator
  kAttributes,        // the same with other attributes
  kInputCount,        // with more or fewer operands
  kWiring,            // with another value of this call as an operand
  kExpectedInternal,  // with something from outside, where a value of this call was recorded
  kExpectedExternal,  // the other way round
  kDtype,             // an argument or captured array of another type
  kShape,             // of other extents
  kDevice,            // on another device
  kConstant,          // another number or captured array, where they are part of the record
  kTooMany,           // operations after the end of the record
  kTooFew,            // the function ended before its record
  kRead,              // a value was read that was not, was not read, or in another order
  kUnreadable,        // a value that was not needed when recorded is read after the call
  kResults,           // other results
  kArguments,         // more or fewer arguments
  kExclusion,         // a region left out of the trace began or ended elsewhere
  kNested,            // a traced function is called within one
  kThread,            // another thread calls it at the same time, or uses a value of a call
  kNotFrozen,         // a function that cannot be frozen, and why
};
inline constexpr int kNumTraceErrors = 20;
KILN_API absl::string_view Name(TraceError error);  // "operation", "attributes", ...
KILN_API std::optional<TraceError> TraceErrorOf(const absl::Status& status);

struct TraceStats {
  int64_t calls = 0, records = 0, replays = 0, frozen_calls = 0, errors = 0;
  int64_t runs = 0;                      // of programs
  int64_t variants = 0;                  // that are kept
  int64_t operations = 0, segments = 0;  // of the newest variant
  int64_t compiled = 0;                  // programs that have been compiled; variants share them
};

// Operations in its scope are not recorded: they are lazy, as outside of the trace. All that is
// alive when it begins can be read there. It ends before the function returns, in its thread: else
// the call fails. Without a trace it does nothing.
class KILN_API ExcludeFromTrace {
 public:
  explicit ExcludeFromTrace(Location where = Location::Here());
  ~ExcludeFromTrace();
  ExcludeFromTrace(const ExcludeFromTrace&) = delete;
  ExcludeFromTrace& operator=(const ExcludeFromTrace&) = delete;

 private:
  tracing::CallCore* call_ = nullptr;
};
// A function whose operations are never recorded.
template <typename F>
auto exclude_from_trace(F function) {
  return [function = std::move(function)](auto&&... arguments) {
    const ExcludeFromTrace scope;
    return function(std::forward<decltype(arguments)>(arguments)...);
  };
}

namespace tracing {

// One call of a traced function. The destructor without Finish (an exception of the function)
// leaves the record as it was.
class KILN_API Call {
 public:
  // `function` is null in a Traced that was moved from; `where` is the place of the call, if known.
  Call(std::shared_ptr<Function> function, const Array* const* arguments, size_t count,
       Location where = Location()) noexcept;
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  // Whether the function runs; else there are results already, or an error.
  bool runs() const { return runs_; }
  const Array& argument(size_t k) const;
  // What the call gives: `results` become values, or carry the error.
  void Finish(Array* results, size_t count) noexcept;
  // Of a call that did not run the function. With an error: one array, which carries it.
  size_t num_results() const;
  Array result(size_t k) const;

 private:
  void Leave(const absl::Status& status);
  const std::shared_ptr<Function> function_;  // the host may drop its own meanwhile
  bool entered_ = false, runs_ = false, finished_ = false;
  CallCore* core_ = nullptr;
  absl::Status error_;
};

KILN_API std::shared_ptr<Function> NewFunction(const TraceOptions& options, bool frozen);
KILN_API absl::Status StatusOf(const Function* function);
KILN_API TraceStats StatsOf(const Function* function);
KILN_API absl::StatusOr<std::string> ProfileOf(const Function* function);
KILN_API void Forget(Function* function);
KILN_API absl::StatusOr<DumpInfo> DumpTo(Function* function, absl::string_view file,
                                         const DumpOptions& options);

template <typename R>
inline constexpr bool kIsSeveralArrays = std::is_same_v<R, std::vector<Array>>;
template <size_t N>
inline constexpr bool kIsSeveralArrays<std::array<Array, N>> = true;

// What a function may return: nothing, an array, several.
template <typename R>
struct Results {
  static_assert(
      kIsSeveralArrays<R>,
      "a traced function returns void, kiln::Array, or a std::array or std::vector of them");
  static Array* data(R& r) { return r.data(); }
  static size_t size(const R& r) { return r.size(); }
  static R Of(const Call& call) {
    R r;
    if constexpr (std::is_same_v<R, std::vector<Array>>) r.resize(call.num_results());
    for (size_t k = 0; k < r.size(); ++k) r[k] = call.result(k);
    return r;
  }
};
template <>
struct Results<Array> {
  static Array* data(Array& r) { return &r; }
  static size_t size(const Array&) { return 1; }
  static Array Of(const Call& call) { return call.result(0); }
};

template <typename F, typename = void>
struct SignatureOf {
  static_assert(
      !std::is_same_v<F, F>,
      "kiln::trace takes a function with one signature: not an overloaded one, a template, "
      "a lambda with `auto` parameters, or what kiln::trace has made");
  using Result = void;
  using Pointer = void (*)();
  static constexpr size_t kArguments = 0;
};
template <typename F>
struct SignatureOf<F, std::void_t<decltype(&F::operator())>>
    : SignatureOf<decltype(&F::operator())> {};
template <typename R, typename... A>
struct SignatureOf<R (*)(A...)> {
  using Result = R;
  using Pointer = R (*)(A...);
  static constexpr size_t kArguments = sizeof...(A);
  static_assert((std::is_same_v<std::decay_t<A>, Array> && ...),
                "a traced function takes arrays: const kiln::Array&");
};
template <typename R, typename... A>
struct SignatureOf<R (*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct SignatureOf<R (C::*)(A...) const> : SignatureOf<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct SignatureOf<R (C::*)(A...) const noexcept> : SignatureOf<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct SignatureOf<R (C::*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <typename R, typename C, typename... A>
struct SignatureOf<R (C::*)(A...)> : SignatureOf<R (*)(A...)> {};

}  // namespace tracing

// A traced function. It is called as the function is; what goes wrong the results say, and
// status(); one that was moved from gives errors. One thread at a time calls it.
template <typename F>
class Traced {
  using Signature = tracing::SignatureOf<F>;
  using Result = typename Signature::Result;

 public:
  Traced(F function, const TraceOptions& options, bool frozen)
      : function_(std::move(function)), core_(tracing::NewFunction(options, frozen)) {}

  // What the function is called with.
  template <typename... A>
  Result operator()(const A&... arguments) {
    static_assert(sizeof...(A) == Signature::kArguments, "as many arguments as the function has");
    static_assert((std::is_same_v<A, Array> && ...), "arguments are arrays");
    const Array* const list[] = {&arguments..., nullptr};
    tracing::Call call(core_, list, sizeof...(A));
    if constexpr (std::is_void_v<Result>) {
      if (!call.runs()) return;
      Run(call, std::make_index_sequence<sizeof...(A)>());
      call.Finish(nullptr, 0);
    } else {
      if (!call.runs()) return tracing::Results<Result>::Of(call);
      Result result = Run(call, std::make_index_sequence<sizeof...(A)>());
      call.Finish(tracing::Results<Result>::data(result), tracing::Results<Result>::size(result));
      return result;
    }
  }

  // Of the last call.
  absl::Status status() const { return tracing::StatusOf(core_.get()); }
  TraceStats stats() const { return tracing::StatsOf(core_.get()); }
  // JSON: the programs of the newest variant with the times of their launches. kFailedPrecondition
  // without TraceOptions::profiling, or before a second call.
  absl::StatusOr<std::string> get_profile() const { return tracing::ProfileOf(core_.get()); }
  // Writes the newest record as a model (trace_dump.h). It has been traced with capture_as_const or
  // record_only, or is frozen, and reads nothing: else kFailedPrecondition. Other errors say which
  // option is wrong (kInvalidArgument) or has no meaning (kUnimplemented), or are of files.
  absl::StatusOr<DumpInfo> dump(absl::string_view file, const DumpOptions& options = {}) const {
    return tracing::DumpTo(core_.get(), file, options);
  }
  // Forgets all records; the next call records. Any thread may call it, and so may the function:
  // what is forgotten while a call is running goes at its end.
  void forget() { tracing::Forget(core_.get()); }

 private:
  template <size_t... K>
  Result Run(const tracing::Call& call, std::index_sequence<K...>) {
    return function_(call.argument(K)...);
  }
  F function_;
  std::shared_ptr<tracing::Function> core_;
};

// `function` takes any number of `const Array&` and returns void, an Array, a std::array or
// std::vector of them. A call of the result runs the function again, and compares each operation
// with the record of the first call; where all are the same, the recorded programs run, which are
// compiled. A difference is an error (TraceError), never a wrong answer.
template <typename F>
auto trace(F function, const TraceOptions& options = {}) {
  return Traced<F>(std::move(function), options, /*frozen=*/false);
}

// The same, but from the third call with arguments of the same types and extents on the function is
// not run: types and shapes of arguments, and that captured arrays are still held by somebody else,
// are all that is compared. `function` has no
// state that it could carry along: it is convertible to a function pointer. What it reads from
// globals, and what it does beside computing with arrays, is not seen; docs/trace.md has a list.
template <typename F>
auto freeze(F function, const TraceOptions& options = {}) {
  using Pointer = typename tracing::SignatureOf<F>::Pointer;
  static_assert(std::is_convertible_v<F, Pointer>,
                "a frozen function captures nothing: pass what it needs as arguments");
  return Traced<Pointer>(static_cast<Pointer>(function), options, /*frozen=*/true);
}

}  // namespace kiln

#endif  // KILN_TRACE_H_
