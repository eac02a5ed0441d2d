// SPDX-License-Identifier: Apache-2.0
#include "exec/library/scatter.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/loops.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

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

// A part of the result belongs to one thread, which fills it and looks through all places for those
// within. That pays where slices are long; short ones are written one after the other.
class Scatter final : public Primitive {
 public:
  Scatter(const Request& request, Places places, int64_t reduction)
      : type_(request.outputs[0].type),
        index_(request.inputs[1].type),
        places_(std::move(places)),
        reduction_(ReductionOf(reduction, type_)) {
    for (const int64_t extent : request.outputs[0].shape) elements_ *= extent;
    int64_t updates = 1;
    for (const int64_t extent : request.inputs[2].shape) updates *= extent;
    slices_ = places_.slice == 0 ? 0 : updates / places_.slice;
  }

  int64_t scratch_bytes() const override { return slices_ * static_cast<int64_t>(sizeof(int64_t)); }

  absl::Status Run(const Arguments& arguments) const override {
    KILN_RETURN_IF_ERROR(ForElement(index_, [&]<typename I>() { return Find<I>(arguments); }));
    const int64_t rows = places_.slice == 0 ? 0 : elements_ / places_.slice;
    const bool apart = places_.slice >= kLongSlice;
    ForElement(type_, [&]<typename E>() {
      ParallelRanges(arguments.context, rows, [&](int64_t begin, int64_t end) {
        Fill(arguments, begin * places_.slice, end * places_.slice);
        if (apart) Write<E>(arguments, begin * places_.slice, end * places_.slice);
      });
      if (!apart) Write<E>(arguments, 0, elements_);
    });
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kLongSlice = 64;  // speed

  // The element at which each slice goes.
  template <typename I>
  absl::Status Find(const Arguments& arguments) const {
    const auto* indices = static_cast<const typename I::Storage*>(arguments.inputs[1]);
    auto* to = static_cast<int64_t*>(arguments.scratch);
    for (int64_t i = 0; i < slices_; ++i) {
      to[i] = places_.Of(indices, i);
      if (to[i] < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("update ", i, " has an index outside the data"));
      }
    }
    return absl::OkStatus();
  }

  void Fill(const Arguments& arguments, int64_t begin, int64_t end) const {
    const auto item = static_cast<int64_t>(SizeOf(type_));
    auto* to = static_cast<uint8_t*>(arguments.outputs[0]) + begin * item;
    std::memcpy(to, static_cast<const uint8_t*>(arguments.inputs[0]) + begin * item,
                static_cast<size_t>((end - begin) * item));
  }

  // The updates of elements [begin, end), in order.
  template <typename E>
  void Write(const Arguments& arguments, int64_t begin, int64_t end) const {
    const auto* updates = static_cast<const typename E::Storage*>(arguments.inputs[2]);
    const auto* places = static_cast<const int64_t*>(arguments.scratch);
    auto* y = static_cast<typename E::Storage*>(arguments.outputs[0]);
    for (int64_t i = 0; i < slices_; ++i) {
      if (places[i] < begin || places[i] >= end) continue;
      const auto* from = updates + i * places_.slice;
      auto* to = y + places[i];
      if (reduction_ == kAdd) {
        for (int64_t k = 0; k < places_.slice; ++k) to[k] = Combined<E>(kAdd, to[k], from[k]);
      } else {
        for (int64_t k = 0; k < places_.slice; ++k) to[k] = Combined<E>(reduction_, to[k], from[k]);
      }
    }
  }

  DType type_, index_;
  Places places_;
  int64_t reduction_;
  int64_t elements_ = 1, slices_ = 0;
};

absl::Status CheckScatter(const Request& request) {
  KILN_RETURN_IF_ERROR(RequireDense(request));
  const Operand &data = request.inputs[0], &y = request.outputs[0];
  if (request.inputs[2].type != y.type || !IsInt(request.inputs[1].type))
    return absl::InvalidArgumentError("updates and result have different types");
  if (data.type != y.type || data.shape != y.shape)
    return absl::InvalidArgumentError("data and result have different types or shapes");
  return absl::OkStatus();
}

}  // namespace

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
  return std::make_unique<Scatter>(request, std::move(places), IntOf(request, "reduction", 0));
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeScatterNd(const Request& request,
                                                         const std::shared_ptr<Session>&) {
  KILN_RETURN_IF_ERROR(CheckAttributes(request.attributes, {"reduction"}));
  KILN_RETURN_IF_ERROR(CheckScatter(request));
  Places places;
  places.data = request.outputs[0].shape;
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
  return std::make_unique<Scatter>(request, std::move(places), IntOf(request, "reduction", 0));
}

}  // namespace kiln::library
