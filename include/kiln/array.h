// SPDX-License-Identifier: Apache-2.0
// Array: arithmetic on tensors written as C++ is, run fused.
//
//   kiln::Array x = kiln::Array::from(values.data(), {1000, 64});
//   kiln::Array y = kiln::relu(x * 2.0f + 1.0f);       // nothing runs yet
//   absl::StatusOr<std::vector<float>> v = y.to_vector<float>();  // one kernel
//
// Outside of a trace (trace.h) arrays are lazy: an operation is recorded, and all that is recorded
// so far is run, as one program, when a value is read (item, tensor, to_vector, eval). Programs are
// cached by their structure: the operations, their data-flow edges, and types and shapes. Numbers
// (`x * 2.0f`) are inputs of it, so that a loop with other numbers in each round is one program.
// The first run of a structure is on the VM, its second asks for compiled code. docs/trace.md has
// the semantics.
//
// Errors are kept, as GraphBuilder's are: what fails gives an array that carries a Status, and so
// does what is computed of it; status() and every read tell. No function here throws, but for
// std::bad_alloc where there is no memory for a list that it returns (shape, extents) or is given.
//
// An Array is a handle of one word: copying it shares the elements, which never change. Arrays that
// have their values (after a read or eval) may be used by any thread; others only by the thread
// that made them. Thread-compatible.
#ifndef KILN_ARRAY_H_
#define KILN_ARRAY_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/dim.h"
#include "kiln/options.h"
#include "kiln/status.h"
#include "kiln/tensor.h"

namespace kiln {

struct OpDef;

namespace tracing {
struct Node;  // what an Array is a handle of
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

// An extent of an array: a number, which in a traced function knows how it follows from the extents
// of the call's values. What + - * / make of it is an ArrayDim too, and attributes of such are one
// operation whatever the extents are: one compiled program serves them all.
//
//   const kiln::ArrayDim n = x.shape()[0];
//   x({Slice{1, n}}) - x({Slice{0, n - 1}});  // compiled once
//   x({Slice{0, n.number() - 1}});            // compiled for each n
//
// number() is that of this call. No call replays what was recorded for other extents, so that
// neither way gives the answer of another n. Arithmetic and comparisons are those of int64_t;
// overflow wraps, and a division by 0 gives INT64_MIN, which no array has as an extent.
class KILN_API ArrayDim {
 public:
  ArrayDim() = default;  // 0
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
  ArrayDim(T number) : number_(static_cast<int64_t>(number)) {}  // NOLINT: implicit
  int64_t number() const { return number_; }
  // Over symbols of the call, `v2_0` for axis 0 of its value 2; a constant where that is unknown.
  Dim dim() const { return known() ? dim_ : Dim(number_); }
  bool known() const { return !dim_.terms().empty(); }

  KILN_API friend ArrayDim operator+(const ArrayDim& a, const ArrayDim& b);
  KILN_API friend ArrayDim operator-(const ArrayDim& a, const ArrayDim& b);
  KILN_API friend ArrayDim operator*(const ArrayDim& a, const ArrayDim& b);
  KILN_API friend ArrayDim operator/(const ArrayDim& a, const ArrayDim& b);
  friend bool operator==(const ArrayDim& a, const ArrayDim& b) { return a.number_ == b.number_; }
  friend auto operator<=>(const ArrayDim& a, const ArrayDim& b) { return a.number_ <=> b.number_; }

  // Inside Kiln.
  ArrayDim(int64_t number, Dim dim) : number_(number), dim_(std::move(dim)) {}

 private:
  int64_t number_ = 0;
  Dim dim_;  // without terms: not known
};
using ArrayShape = std::vector<ArrayDim>;

// A list of numbers as an attribute: extents, axes. Up to 16 need no memory.
class KILN_API Ints {
 public:
  Ints() = default;                              // absent
  Ints(std::initializer_list<int64_t> values);   // NOLINT: implicit, so that calls read {0, 1}
  Ints(std::initializer_list<ArrayDim> values);  // NOLINT: implicit
  Ints(const std::vector<int64_t>& values);      // NOLINT: implicit
  Ints(const ArrayShape& values);                // NOLINT: implicit
  bool given() const { return given_; }
  size_t size() const { return size_; }
  const int64_t* data() const { return size_ <= few_.size() ? few_.data() : many_.data(); }
  // All of them as expressions, where one is known; else null.
  const Dim* dims() const { return dims_.empty() ? nullptr : dims_.data(); }

 private:
  int64_t* Resize(size_t size);
  void Assign(const ArrayDim* values, size_t size);
  bool given_ = false;
  size_t size_ = 0;
  std::array<int64_t, 16> few_;
  std::vector<int64_t> many_;
  Shape dims_;
};

// The elements [begin, end) of an axis, each `step`-th; negative numbers count from the end.
struct Slice {
  ArrayDim begin = 0;
  ArrayDim end = INT64_MAX;
  int64_t step = 1;
};

// One index of an axis, which is dropped, or a Slice of it, which is kept.
struct Index {
  Index(int64_t at) : range{at, at + 1, 1}, drops(true) {}          // NOLINT: implicit
  Index(const ArrayDim& at) : range{at, at + 1, 1}, drops(true) {}  // NOLINT: implicit
  Index(Slice slice) : range(std::move(slice)) {}                   // NOLINT: implicit
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
  ArrayShape shape() const;
  std::vector<int64_t> extents() const;  // as numbers
  int rank() const;
  int64_t num_elements() const;

  // Reads: what has been recorded up to here runs, if the array has no value yet. In a traced
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

  // a({Slice{1, -1}, 0}): axis 0 without its first and last, index 0 of axis 1; other axes whole.
  // Of an array that has its elements, outside of a trace: at once, a view where it is dense.
  Array operator()(std::initializer_list<Index> indices, Location where = Location::Here()) const;

  Array& operator+=(const Operand& b);
  Array& operator-=(const Operand& b);
  Array& operator*=(const Operand& b);
  Array& operator/=(const Operand& b);

  // Inside Kiln. Takes over one count of the node.
  explicit Array(tracing::Node* node) : node_(node) {}
  tracing::Node* node() const { return node_; }

 private:
  absl::StatusOr<Tensor> ReadAs(DType type, bool one, Location where) const;
  Array Sliced(std::initializer_list<Index> indices, Location where) const;
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

// The operands of an operator that takes any number of them, such as concat.
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
  Attribute(const char* n, int64_t v) : name(n), kind(Kind::kInt), integer(v) {}
  Attribute(const char* n, double v) : name(n), kind(Kind::kFloat), number(v) {}
  Attribute(const char* n, absl::string_view v) : name(n), kind(Kind::kString), text(v) {}
  Attribute(const char* n, const Ints& v)
      : name(n),
        kind(v.given() ? Kind::kInts : Kind::kAbsent),
        ints(v.data()),
        dims(v.dims()),
        size(v.size()) {}
  Attribute(const char* n, std::optional<DType> v)
      : name(n), kind(v ? Kind::kType : Kind::kAbsent), type(v.value_or(DType::kF32)) {}
  const char* name;
  Kind kind;
  int64_t integer = 0;
  double number = 0;
  absl::string_view text;
  const int64_t* ints = nullptr;
  const Dim* dims = nullptr;  // the same numbers as expressions; null: they are none
  size_t size = 0;
  DType type = DType::kF32;
};

// The definition of an operator; null: this library has none, and calls of it are errors.
KILN_API const OpDef* FindOperator(const char* name) noexcept;
// Records one call of an operator. Array k of `results` is result k; `num_results` is the number
// that the definition says, or, where that is open, as many as there are.
KILN_API void Apply(const OpDef* op, const char* name, const Operand* const* operands, size_t count,
                    const Attribute* attributes, size_t num_attributes, Location where,
                    Array* results, size_t num_results) noexcept;
// One with one result.
KILN_API Array Apply(const OpDef* op, const char* name,
                     std::initializer_list<const Operand*> operands,
                     std::initializer_list<Attribute> attributes, Location where) noexcept;

}  // namespace tracing

// Operators, with the broadcasting of ONNX. Comparisons give arrays of bools.
#define KILN_TRACE_OPERATOR_(symbol, name)                           \
  inline Array operator symbol(const Operand& a, const Operand& b) { \
    static const OpDef* const op = tracing::FindOperator(name);      \
    return tracing::Apply(op, name, {&a, &b}, {}, b.where());        \
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
// recorded runs first, and cached programs are forgotten. kInvalidArgument: an option
// is wrong, and all stays as it was.
KILN_API absl::Status SetLazyOptions(const CompileOptions& options);
struct LazyStats {
  int64_t operations = 0;    // recorded
  int64_t runs = 0;          // of programs
  int64_t structures = 0;    // different ones
  int64_t compiled = 0;      // of those, the ones whose compilation has begun
  int64_t loop_flushes = 0;  // runs without a read: the operations of a loop repeated themselves
};
KILN_API LazyStats lazy_stats();

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
  try {
    return std::vector<T>(begin, begin + t->num_elements());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("array: no memory for a copy of its elements");
  }
}

}  // namespace kiln

#endif  // KILN_ARRAY_H_
