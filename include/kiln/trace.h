// SPDX-License-Identifier: Apache-2.0
// Array: arithmetic on tensors written as C++ is, run fused. trace(): a function of arrays that is
// recorded by its first call, and replayed as compiled programs by later ones.
//
//   kiln::Array x = kiln::Array::from(values.data(), {1000, 64});
//   kiln::Array y = kiln::relu(x * 2.0f + 1.0f);       // nothing runs yet
//   absl::StatusOr<std::vector<float>> v = y.to_vector<float>();  // one kernel
//
//   kiln::Array Step(const kiln::Array& w, const kiln::Array& g) { return w - 0.1f * g; }
//   auto step = kiln::trace(Step);
//   w = step(w, g);                                    // records, then replays
//
// Outside of a trace arrays are lazy: an operation is written down, and what is written down runs
// as one program when a value is read (item, tensor, to_vector, eval). A program is found again by
// its structure: the operations, how they are wired, and types and shapes. Numbers (`x * 2.0f`) are
// inputs of it, so that a loop with other numbers in each round is one program. The first run of a
// structure is on the VM, its second asks for compiled code. docs/trace.md has the semantics.
//
// Errors are kept, as GraphBuilder's are: what fails gives an array that carries a Status, and so
// does what is computed of it; status() and every read tell. No function here throws.
//
// An Array is a handle of one word: copying it shares the elements, which never change. Arrays that
// have their values (after a read or eval) may be used by any thread; others only by the thread
// that made them. Thread-compatible.
#ifndef KILN_TRACE_H_
#define KILN_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/dim.h"
#include "kiln/options.h"
#include "kiln/status.h"
#include "kiln/tensor.h"
#include "kiln/trace_dump.h"

namespace kiln {

struct OpDef;

namespace tracing {
struct Node;     // what an Array is a handle of
class CallCore;  // a call of a traced function
class Function;  // what a Traced has recorded
class OperandAccess;
}  // namespace tracing

// A place in the program's source: clang 14 has no std::source_location.
struct Location {
  const char* file = "";
  int line = 0;
  static constexpr Location Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// A list of numbers as an attribute: extents, axes. Up to 16 need no memory.
class KILN_API Ints {
 public:
  Ints() = default;                             // absent
  Ints(std::initializer_list<int64_t> values);  // NOLINT: implicit, so that calls read {0, 1}
  Ints(const std::vector<int64_t>& values);     // NOLINT: implicit
  bool given() const { return given_; }
  size_t size() const { return size_; }
  const int64_t* data() const { return size_ <= few_.size() ? few_.data() : many_.data(); }

 private:
  void Assign(const int64_t* values, size_t size);
  bool given_ = false;
  size_t size_ = 0;
  std::array<int64_t, 16> few_;
  std::vector<int64_t> many_;
};

// The elements [begin, end) of an axis, each `step`-th; negative places count from the end.
struct Slice {
  int64_t begin = 0;
  int64_t end = INT64_MAX;
  int64_t step = 1;
};

// One place of an axis, which goes, or a Slice of it, which stays.
struct Index {
  Index(int64_t place) : range{place, place + 1, 1}, drops(true) {}  // NOLINT: implicit
  Index(Slice range) : range(range) {}                               // NOLINT: implicit
  Slice range;
  bool drops = false;
};

class Operand;

class KILN_API Array {
 public:
  Array() = default;  // no array: status() is kFailedPrecondition
  Array(const Array& other) noexcept;
  Array(Array&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Array& operator=(const Array& other) noexcept;
  Array& operator=(Array&& other) noexcept;
  ~Array();

  // A copy of the elements at `data`, dense, of `shape`. kInvalidArgument: no memory, or a shape
  // that is none.
  template <typename T>
  static Array from(const T* data, const std::vector<int64_t>& shape);
  template <typename T>
  static Array from(const std::vector<T>& values) {
    return from(values.data(), {static_cast<int64_t>(values.size())});
  }
  // The tensor itself, without a copy: what is written into its memory is seen by runs that begin
  // later. kInvalidArgument: no memory, or more than 16 axes. With FromDLPack (tensor.h) this takes
  // arrays of other libraries.
  static Array of(Tensor tensor);
  // kInvalidArgument: an integer type that has no such value (300 as u8, 0.5, NaN), or a shape that
  // is none. Float types take the nearest value that they have, or infinity.
  static Array full(const std::vector<int64_t>& shape, double value, DType type = DType::kF32);

  static Array CopyOf(const void* data, DType type, const std::vector<int64_t>& shape);

  // False for `Array()` alone; one with an error is valid.
  bool valid() const { return node_ != nullptr; }
  // OK, or the first error of what the array is computed of. Runs nothing.
  absl::Status status() const;
  // f32 and [] of an array with an error.
  DType dtype() const;
  Shape shape() const;
  std::vector<int64_t> extents() const;
  int rank() const;
  int64_t num_elements() const;

  // Reads: what has been written down up to here runs, if the array has no value yet. In a traced
  // function a read is part of the record: the program is cut there.
  absl::Status eval(Location where = Location::Here()) const;
  // The elements. They are those of the array, and not to be written; ToDLPack (tensor.h) passes
  // them on.
  absl::StatusOr<Tensor> tensor(Location where = Location::Here()) const;
  // The one element, of the array's type. kInvalidArgument: more than one, or another type.
  template <typename T>
  absl::StatusOr<T> item(Location where = Location::Here()) const;
  // The elements row by row. kInvalidArgument: another type.
  template <typename T>
  absl::StatusOr<std::vector<T>> to_vector(Location where = Location::Here()) const;

  // a({Slice{1, -1}, 0}): axis 0 without its first and last, place 0 of axis 1; other axes whole.
  // Of an array that has its elements, outside of a trace: at once, a view where it is dense.
  Array operator()(std::initializer_list<Index> places, Location where = Location::Here()) const;

  Array& operator+=(const Operand& b);
  Array& operator-=(const Operand& b);
  Array& operator*=(const Operand& b);
  Array& operator/=(const Operand& b);

  // Inside Kiln. Takes over one count of the node.
  explicit Array(tracing::Node* node) : node_(node) {}
  tracing::Node* node() const { return node_; }

 private:
  absl::StatusOr<Tensor> ReadAs(DType type, bool one, Location where) const;
  tracing::Node* node_ = nullptr;
};

// The DType whose elements are T; there is none for other types.
template <typename T>
constexpr DType TypeOfElements() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr DType kSigned[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
    constexpr DType kUnsigned[] = {DType::kU8, DType::kU16, DType::kU32, DType::kU64};
    constexpr int kLog = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::is_signed_v<T> ? kSigned[kLog] : kUnsigned[kLog];
  }
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, long double>);
}

// What an operation is applied to: an array, or a number, which takes the type of the arrays beside
// it (of the first that is not of bools, and no operand of indices), and i64 as an index or as the
// step of random numbers. An integer type has to have the number; a float type takes the nearest
// that it has, or infinity. Nothing: an operand that may be absent, and is.
class KILN_API Operand {
 public:
  Operand() {}
  Operand(const Array& array, Location where = Location::Here())  // NOLINT: implicit
      : array_(&array), kind_(Kind::kArray), where_(where) {}
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T number, Location where = Location::Here())  // NOLINT: implicit
      : kind_(std::is_same_v<T, bool>       ? Kind::kBool
              : std::is_floating_point_v<T> ? Kind::kFloat
                                            : Kind::kInt),
        where_(where) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(int64_t))
      if (number > static_cast<T>(INT64_MAX)) kind_ = Kind::kLarge;
    if constexpr (std::is_floating_point_v<T>)
      number_ = static_cast<double>(number);
    else
      whole_ = static_cast<int64_t>(number);
  }
  Location where() const { return where_; }

 private:
  friend class tracing::OperandAccess;
  enum class Kind : int {
    kNone,
    kArray,
    kBool,
    kInt,
    kLarge,  // above INT64_MAX: `whole_` has the bits of an uint64_t
    kFloat,
  };
  const Array* array_ = nullptr;
  Kind kind_ = Kind::kNone;
  Location where_;
  union {
    double number_ = 0;
    int64_t whole_;
  };
};

// OperandList of an operator that takes any number of them.
class KILN_API OperandList {
 public:
  OperandList(std::initializer_list<Operand> operands) : operands_(operands) {}  // NOLINT: implicit
  OperandList(const std::vector<Array>& arrays)                                  // NOLINT: implicit
      : operands_(arrays.begin(), arrays.end()) {}
  const std::vector<Operand>& list() const { return operands_; }

 private:
  std::vector<Operand> operands_;
};

namespace tracing {

// An attribute that has no default: leaving it out does not compile.
template <typename T>
struct Required {
  Required(T v) : value(v) {}  // NOLINT: implicit
  T value;
};

// An attribute of a call: one of a closed set. Views, for the time of the call.
struct Attribute {
  enum class Kind : int { kAbsent, kInt, kFloat, kString, kInts, kType };
  Attribute(const char* name, int64_t v) : name(name), kind(Kind::kInt), integer(v) {}
  Attribute(const char* name, double v) : name(name), kind(Kind::kFloat), number(v) {}
  Attribute(const char* name, absl::string_view v) : name(name), kind(Kind::kString), text(v) {}
  Attribute(const char* name, const Ints& v)
      : name(name), kind(v.given() ? Kind::kInts : Kind::kAbsent), ints(v.data()), size(v.size()) {}
  Attribute(const char* name, std::optional<DType> v)
      : name(name), kind(v ? Kind::kType : Kind::kAbsent), type(v.value_or(DType::kF32)) {}
  const char* name;
  Kind kind;
  int64_t integer = 0;
  double number = 0;
  absl::string_view text;
  const int64_t* ints = nullptr;
  size_t size = 0;
  DType type = DType::kF32;
};

// The record of an operator; of one that this library has not, null, and calls of it are errors.
KILN_API const OpDef* FindOperator(const char* name) noexcept;
// One call of an operator: writes it down. Array k of `results` is result k; `results` is the
// number that the record says, or, where that is open, as many as there are.
KILN_API void Apply(const OpDef* op, const char* name, const Operand* const* operands, size_t count,
                    const Attribute* attributes, size_t num_attributes, Location where,
                    Array* results, size_t num_results) noexcept;
// One with one result.
KILN_API Array Apply(const OpDef* op, const char* name,
                     std::initializer_list<const Operand*> operands,
                     std::initializer_list<Attribute> attributes, Location where) noexcept;

}  // namespace tracing

// Operators, with the broadcasting of ONNX. Comparisons give arrays of bools.
#define KILN_TRACE_OPERATOR_(symbol, record)                         \
  inline Array operator symbol(const Operand& a, const Operand& b) { \
    static const OpDef* const op = tracing::FindOperator(record);    \
    return tracing::Apply(op, record, {&a, &b}, {}, b.where());      \
  }
KILN_TRACE_OPERATOR_(+, "add")
KILN_TRACE_OPERATOR_(-, "sub")
KILN_TRACE_OPERATOR_(*, "mul")
KILN_TRACE_OPERATOR_(/, "div")
KILN_TRACE_OPERATOR_(%, "mod")
KILN_TRACE_OPERATOR_(<, "less")
KILN_TRACE_OPERATOR_(<=, "less_equal")
KILN_TRACE_OPERATOR_(>, "greater")
KILN_TRACE_OPERATOR_(>=, "greater_equal")
KILN_TRACE_OPERATOR_(==, "equal")
KILN_TRACE_OPERATOR_(!=, "not_equal")
#undef KILN_TRACE_OPERATOR_
KILN_API Array operator-(const Operand& a);

// ---- Lazy evaluation, of the calling thread.

// The options of models, but that kernels are compiled while the program runs.
KILN_API CompileOptions BackgroundCompile();

// How programs outside of traces are compiled and run, from the next structure on; what has been
// written down runs first, and structures that are known are forgotten. kInvalidArgument: an option
// is wrong, and all stays as it was.
KILN_API absl::Status SetLazyOptions(const CompileOptions& options);
struct LazyStats {
  int64_t operations = 0;   // written down
  int64_t runs = 0;         // of programs
  int64_t structures = 0;   // different ones
  int64_t compiled = 0;     // of those, the ones that were seen twice
  int64_t growth_cuts = 0;  // runs because the same operations came again and again
};
KILN_API LazyStats lazy_stats();

// ---- Traces.

struct TraceOptions {
  std::string name = "trace";  // what messages call it
  // Recording runs nothing until the function returns; reads in it are errors.
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
  // Every run has a clock around every launch, for get_profile().
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
  // `function` is null in a Traced that was moved from.
  Call(Function* function, const Array* const* arguments, size_t count, Location where) noexcept;
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
  Function* const function_;
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

// What a function may return: nothing, an array, several.
template <typename R>
struct Results {
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

template <typename F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
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

  // What a function is called with, and the place of the call.
  template <typename... A>
  Result operator()(const A&... arguments) {
    static_assert(sizeof...(A) == Signature::kArguments, "as many arguments as the function has");
    static_assert((std::is_same_v<A, Array> && ...), "arguments are arrays");
    const Array* const list[] = {&arguments..., nullptr};
    tracing::Call call(core_.get(), list, sizeof...(A), Location());
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

// The same, but from the third call on the function is not run: types and shapes of arguments, and
// that captured arrays are still held by somebody else, are all that is compared. `function` has no
// state that it could carry along: it is convertible to a function pointer. What it reads from
// globals, and what it does beside computing with arrays, is not seen; docs/trace.md has a list.
template <typename F>
auto freeze(F function, const TraceOptions& options = {}) {
  using Pointer = typename tracing::SignatureOf<F>::Pointer;
  static_assert(std::is_convertible_v<F, Pointer>,
                "a frozen function captures nothing: pass what it needs as arguments");
  return Traced<Pointer>(static_cast<Pointer>(function), options, /*frozen=*/true);
}

// ---- Definitions.

template <typename T>
Array Array::from(const T* data, const std::vector<int64_t>& shape) {
  return CopyOf(data, TypeOfElements<T>(), shape);
}

template <typename T>
absl::StatusOr<T> Array::item(Location where) const {
  absl::StatusOr<Tensor> t = ReadAs(TypeOfElements<T>(), /*one=*/true, where);
  if (!t.ok()) return t.status();
  return *static_cast<const T*>(t->data());
}

template <typename T>
absl::StatusOr<std::vector<T>> Array::to_vector(Location where) const {
  absl::StatusOr<Tensor> t = ReadAs(TypeOfElements<T>(), /*one=*/false, where);
  if (!t.ok()) return t.status();
  const T* const begin = static_cast<const T*>(t->data());
  return std::vector<T>(begin, begin + t->num_elements());
}

}  // namespace kiln

#endif  // KILN_TRACE_H_
