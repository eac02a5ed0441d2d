// SPDX-License-Identifier: Apache-2.0
#include "exec/library/order_ops.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/tensor.h"
#include "exec/library/loops.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

// ---- top_k
class TopK final : public Primitive {
 public:
  TopK(DType type, Around x, int64_t k, bool largest)
      : type_(type), x_(x), k_(k), largest_(largest) {}

  absl::Status Run(const Arguments& arguments) const override {
    ForElement(type_, [&]<typename E>() {
      ParallelRanges(arguments.context, x_.lanes(), [&](int64_t begin, int64_t end) {
        std::vector<int64_t> order(static_cast<size_t>(x_.extent));
        for (int64_t lane = begin; lane < end; ++lane) Lane<E>(arguments, lane, order);
      });
    });
    return absl::OkStatus();
  }

 private:
  template <typename E>
  void Lane(const Arguments& arguments, int64_t lane, std::vector<int64_t>& order) const {
    const auto* from =
        static_cast<const typename E::Storage*>(arguments.inputs[0]) + x_.first(lane, x_.extent);
    const auto greater = [](auto a, auto b) { return a != a ? b == b : a > b; };
    const auto before = [&](int64_t i, int64_t j) {
      const auto a = E::Load(from[i * x_.inner]), b = E::Load(from[j * x_.inner]);
      if (largest_ ? greater(a, b) : greater(b, a)) return true;
      if (largest_ ? greater(b, a) : greater(a, b)) return false;
      return i < j;
    };
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k_, order.end(), before);
    const int64_t to = x_.first(lane, k_);
    auto* values = static_cast<typename E::Storage*>(arguments.outputs[0]) + to;
    auto* indices = static_cast<int64_t*>(arguments.outputs[1]) + to;
    for (int64_t i = 0; i < k_; ++i) {
      const int64_t at = order[static_cast<size_t>(i)];
      values[i * x_.inner] = from[at * x_.inner];
      indices[i * x_.inner] = at;
    }
  }

  DType type_;
  Around x_;
  int64_t k_;
  bool largest_;
};

// ---- cumulative
class Cumulative final : public Primitive {
 public:
  Cumulative(DType type, Around x, bool product, bool exclusive, bool reverse)
      : type_(type), x_(x), product_(product), exclusive_(exclusive), reverse_(reverse) {}

  absl::Status Run(const Arguments& arguments) const override {
    ForElement(type_, [&]<typename E>() {
      ParallelRanges(arguments.context, x_.lanes(), [&](int64_t begin, int64_t end) {
        for (int64_t lane = begin; lane < end; ++lane) Lane<E>(arguments, lane);
      });
    });
    return absl::OkStatus();
  }

 private:
  template <typename E>
  void Lane(const Arguments& arguments, int64_t lane) const {
    using Sum = Wrapping<typename E::Compute>;
    const int64_t base = x_.first(lane, x_.extent);
    const auto* from = static_cast<const typename E::Storage*>(arguments.inputs[0]) + base;
    auto* to = static_cast<typename E::Storage*>(arguments.outputs[0]) + base;
    Sum sum = static_cast<Sum>(product_ ? 1 : 0);
    for (int64_t i = 0; i < x_.extent; ++i) {
      const int64_t at = (reverse_ ? x_.extent - 1 - i : i) * x_.inner;
      // Signed bytes keep their sign, modulo 2^32: sums wrap as the standard says.
      const Sum x = static_cast<Sum>(E::Load(from[at]));  // NOLINT(bugprone-signed-char-misuse)
      const Sum next = product_ ? sum * x : sum + x;
      to[at] = E::Store(static_cast<typename E::Compute>(exclusive_ ? sum : next));
      sum = next;
    }
  }

  DType type_;
  Around x_;
  bool product_, exclusive_, reverse_;
};

// ---- scatter
enum Reduction : int64_t { kReplace, kAdd, kMultiply, kMaximum, kMinimum };

// Sums and products of truth values are "or" and "and".
int64_t ReductionOf(int64_t reduction, DType type) {
  if (type != DType::kBool) return reduction;
  return reduction == kAdd ? kMaximum : reduction == kMultiply ? kMinimum : reduction;
}

template <typename E>
typename E::Storage Combined(int64_t reduction, typename E::Storage old,
                             typename E::Storage update) {
  using Value = typename E::Compute;
  using Sum = Wrapping<Value>;
  const Value a = E::Load(old), b = E::Load(update);
  switch (reduction) {
    case kAdd:
      return E::Store(static_cast<Value>(static_cast<Sum>(a) + static_cast<Sum>(b)));
    case kMultiply:
      return E::Store(static_cast<Value>(static_cast<Sum>(a) * static_cast<Sum>(b)));
    case kMaximum:
      return a != a || a > b ? old : update;
    case kMinimum:
      return a != a || a < b ? old : update;
    default:
      return update;
  }
}

// Where updates go. A run of `slice` elements goes to consecutive ones.
struct Places {
  std::vector<int64_t> data, updates;  // extents
  int64_t axis = -1;                   // scatter_elements
  size_t depth = 0;                    // scatter_nd: coordinates per place
  int64_t slice = 1;

  // The flat element for slice `i`; -1 if an index is outside its axis.
  template <typename Index>
  int64_t Of(const Index* indices, int64_t i) const {
    return axis >= 0 ? OfElement(indices, i) : OfRow(indices, i) * slice;
  }

 private:
  static int64_t Wrapped(int64_t index, int64_t extent) {
    if (index < -extent || index >= extent) return -1;
    return index < 0 ? index + extent : index;
  }
  template <typename Index>
  int64_t OfRow(const Index* indices, int64_t i) const {
    int64_t flat = 0;
    for (size_t d = 0; d < depth; ++d) {
      const int64_t at =
          Wrapped(static_cast<int64_t>(indices[static_cast<size_t>(i) * depth + d]), data[d]);
      if (at < 0) return -1;
      flat = flat * data[d] + at;
    }
    return flat;
  }
  template <typename Index>
  int64_t OfElement(const Index* indices, int64_t i) const {
    int64_t flat = 0, step = 1, rest = i;
    for (size_t d = data.size(); d-- > 0;) {
      const bool looked_up = static_cast<int64_t>(d) == axis;
      const int64_t own = rest % updates[d];
      rest /= updates[d];
      const int64_t at = Wrapped(looked_up ? static_cast<int64_t>(indices[i]) : own, data[d]);
      if (at < 0) return -1;
      flat += at * step;
      step *= data[d];
    }
    return flat;
  }
};

class Scatter final : public Primitive {
 public:
  Scatter(const Request& request, Places places)
      : type_(request.inputs[0].type),
        index_(request.inputs[1].type),
        places_(std::move(places)),
        reduction_(ReductionOf(IntOf(request, "reduction", 0), type_)) {
    for (const int64_t extent : request.inputs[0].shape) elements_ *= extent;
    for (const int64_t extent : request.inputs[2].shape) updates_ *= extent;
  }

  absl::Status Run(const Arguments& arguments) const override {
    std::memcpy(arguments.outputs[0], arguments.inputs[0],
                static_cast<size_t>(elements_) * SizeOf(type_));
    return ForElement(type_, [&]<typename E>() {
      return ForElement(index_, [&]<typename I>() { return Write<E, I>(arguments); });
    });
  }

 private:
  template <typename E, typename I>
  absl::Status Write(const Arguments& arguments) const {
    const auto* indices = static_cast<const typename I::Storage*>(arguments.inputs[1]);
    const auto* updates = static_cast<const typename E::Storage*>(arguments.inputs[2]);
    auto* y = static_cast<typename E::Storage*>(arguments.outputs[0]);
    for (int64_t i = 0; i < updates_; i += places_.slice) {
      const int64_t to = places_.Of(indices, i / places_.slice);
      if (to < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("update ", i / places_.slice, " has an index outside the data"));
      }
      for (int64_t k = 0; k < places_.slice; ++k)
        y[to + k] = Combined<E>(reduction_, y[to + k], updates[i + k]);
    }
    return absl::OkStatus();
  }

  DType type_, index_;
  Places places_;
  int64_t reduction_;
  int64_t elements_ = 1, updates_ = 1;
};

absl::Status CheckScatter(const Request& request) {
  KILN_RETURN_IF_ERROR(RequireDense(request));
  const Operand &data = request.inputs[0], &indices = request.inputs[1],
                &updates = request.inputs[2], &y = request.outputs[0];
  if (data.type != updates.type || data.type != y.type || data.shape != y.shape ||
      !IsInt(indices.type)) {
    return absl::InvalidArgumentError("data, updates and result have different types or shapes");
  }
  return absl::OkStatus();
}

absl::Status CheckResult(const Operand& wanted, const Operand& y) {
  if (y.type == wanted.type && y.shape == wanted.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the result is ", Name(y.type), " [", absl::StrJoin(y.shape, ", "), "], expected ",
      Name(wanted.type), " [", absl::StrJoin(wanted.shape, ", "), "]"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeTopK(const Request& request,
                                                    const std::shared_ptr<Session>&) {
  KILN_RETURN_IF_ERROR(CheckAttributes(request.attributes, {"axis", "k", "largest"}));
  KILN_RETURN_IF_ERROR(RequireDense(request));
  KILN_ASSIGN_OR_RETURN(const Around x, AroundAxis(request));
  const int64_t k = IntOf(request, "k", 0);
  if (k < 0 || k > x.extent)
    return absl::InvalidArgumentError(absl::StrCat("k is ", k, " of ", x.extent));
  Operand values = request.inputs[0];
  values.shape[static_cast<size_t>(x.axis)] = k;
  Operand places = values;
  places.type = DType::kI64;
  KILN_RETURN_IF_ERROR(CheckResult(values, request.outputs[0]));
  KILN_RETURN_IF_ERROR(CheckResult(places, request.outputs[1]));
  return std::make_unique<TopK>(request.inputs[0].type, x, k, IntOf(request, "largest", 1) != 0);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeCumulative(const Request& request,
                                                          const std::shared_ptr<Session>&) {
  KILN_RETURN_IF_ERROR(
      CheckAttributes(request.attributes, {"axis", "exclusive", "product", "reverse"}));
  KILN_RETURN_IF_ERROR(RequireDense(request));
  KILN_ASSIGN_OR_RETURN(const Around x, AroundAxis(request));
  KILN_RETURN_IF_ERROR(CheckResult(request.inputs[0], request.outputs[0]));
  return std::make_unique<Cumulative>(request.inputs[0].type, x, IntOf(request, "product", 0) != 0,
                                      IntOf(request, "exclusive", 0) != 0,
                                      IntOf(request, "reverse", 0) != 0);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeScatterElements(const Request& request,
                                                               const std::shared_ptr<Session>&) {
  KILN_RETURN_IF_ERROR(CheckAttributes(request.attributes, {"axis", "reduction"}));
  KILN_RETURN_IF_ERROR(CheckScatter(request));
  Places places;
  places.data = request.inputs[0].shape;
  places.updates = request.inputs[2].shape;
  const auto rank = static_cast<int64_t>(places.data.size());
  places.axis = IntOf(request, "axis", 0);
  if (places.axis < 0) places.axis += rank;
  if (request.inputs[1].shape != places.updates || places.updates.size() != places.data.size() ||
      places.axis < 0 || places.axis >= rank) {
    return absl::InvalidArgumentError("indices and updates have different shapes");
  }
  return std::make_unique<Scatter>(request, std::move(places));
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeScatterNd(const Request& request,
                                                         const std::shared_ptr<Session>&) {
  KILN_RETURN_IF_ERROR(CheckAttributes(request.attributes, {"reduction"}));
  KILN_RETURN_IF_ERROR(CheckScatter(request));
  Places places;
  places.data = request.inputs[0].shape;
  places.updates = request.inputs[2].shape;
  std::vector<int64_t> expected = request.inputs[1].shape;
  if (expected.empty() || expected.back() > static_cast<int64_t>(places.data.size()))
    return absl::InvalidArgumentError("indices do not tell places in the data");
  places.depth = static_cast<size_t>(expected.back());
  expected.pop_back();
  for (size_t d = places.depth; d < places.data.size(); ++d) {
    expected.push_back(places.data[d]);
    places.slice *= places.data[d];
  }
  if (expected != places.updates)
    return absl::InvalidArgumentError("updates do not fit indices and data");
  return std::make_unique<Scatter>(request, std::move(places));
}

}  // namespace kiln::library
