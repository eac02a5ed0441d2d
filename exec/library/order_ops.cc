// SPDX-License-Identifier: Apache-2.0
#include "exec/library/order_ops.h"

#include <algorithm>
#include <numeric>
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

}  // namespace kiln::library
