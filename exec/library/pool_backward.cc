// SPDX-License-Identifier: Apache-2.0
#include "exec/library/pool_backward.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/loops.h"
#include "exec/library/pool_geometry.h"
#include "exec/library/pool_rows.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

// The operands of either operator, and the pool that it belongs to.
struct Backward {
  bool average;
  PoolForm form;
  Operand x, g, gradient;      // x: of a maximum
  PoolGeometry read, written;  // from x, or the gradient, to g
};

absl::StatusOr<Backward> BackwardOf(const Request& request, bool average) {
  const Operand &g = request.inputs[average ? 0 : 1], &gradient = request.outputs[0];
  if (!IsFloat(g.type)) {
    return absl::UnimplementedError(
        absl::StrCat("type ", Name(g.type), " is not supported; use a float type"));
  }
  const Operand& x = average ? gradient : request.inputs[0];
  if (x.shape != gradient.shape || x.type != gradient.type)
    return absl::InvalidArgumentError("the gradient has another type or shape than the input");
  Request pool;
  pool.attributes = request.attributes;
  pool.inputs = {x};
  pool.outputs = {g};
  KILN_ASSIGN_OR_RETURN(PoolForm form, NormalizePool(pool, average));
  Backward made{average, std::move(form), x, g, gradient, {}, {}};
  made.read = GeometryOf(made.form, x, g);
  made.written = GeometryOf(made.form, gradient, g);
  return made;
}

// Calls f(output coordinates' taps, element of g) for all places of a plane, in order.
template <typename F>
void ForEachPlace(const PoolGeometry& geometry, const F& f) {
  for (size_t d = 0; d < geometry.taps[0].size(); ++d) {
    for (size_t h = 0; h < geometry.taps[1].size(); ++h) {
      for (size_t w = 0; w < geometry.taps[2].size(); ++w) {
        f(geometry.taps[0][d], geometry.taps[1][h], geometry.taps[2][w],
          static_cast<int64_t>(d) * geometry.out_stride[0] +
              static_cast<int64_t>(h) * geometry.out_stride[1] +
              static_cast<int64_t>(w) * geometry.out_stride[2]);
      }
    }
  }
}

// Calls f(element of x) for the taps of one window that lie inside, in order.
template <typename F>
void ForEachTap(const PoolGeometry& geometry, const Taps& d, const Taps& h, const Taps& w,
                const F& f) {
  const int64_t start = d.start * geometry.in_stride[0] + h.start * geometry.in_stride[1] +
                        w.start * geometry.in_stride[2];
  for (int64_t i = d.first; i < d.last; ++i) {
    for (int64_t j = h.first; j < h.last; ++j) {
      const int64_t row = start + i * geometry.step[0] + j * geometry.step[1];
      for (int64_t k = w.first; k < w.last; ++k) f(row + k * geometry.step[2]);
    }
  }
}

class Planes final : public Primitive {
 public:
  explicit Planes(Backward pool) : pool_(std::move(pool)) {
    // Sums are made in a dense plane.
    Operand plane = pool_.gradient;
    int64_t step = 1;
    for (size_t i = plane.shape.size(); i-- > 2; step *= plane.shape[i]) plane.strides[i] = step;
    elements_ = step;
    dense_ = GeometryOf(pool_.form, plane, pool_.g);
  }

  absl::Status Run(const Arguments& arguments) const override {
    ForElement(pool_.g.type, [&]<typename E>() {
      const int64_t channels = pool_.form.channels;
      ParallelRanges(arguments.context, pool_.form.batch * channels,
                     [&](int64_t begin, int64_t end) {
                       std::vector<typename E::Compute> sums(static_cast<size_t>(elements_));
                       for (int64_t plane = begin; plane < end; ++plane)
                         Plane<E>(arguments, plane / channels, plane % channels, sums);
                     });
    });
    return absl::OkStatus();
  }

 private:
  template <typename E>
  void Plane(const Arguments& arguments, int64_t n, int64_t c,
             std::vector<typename E::Compute>& sums) const {
    const auto at = [&](void* data, const Operand& operand) {
      return static_cast<typename E::Storage*>(data) + n * operand.strides[0] +
             c * operand.strides[1];
    };
    const auto* g = at(arguments.inputs[pool_.average ? 0 : 1], pool_.g);
    std::fill(sums.begin(), sums.end(), typename E::Compute{0});
    if (pool_.average) {
      Spread<E>(g, sums.data());
    } else {
      ToMaxima<E>(at(arguments.inputs[0], pool_.x), g, sums.data());
    }
    auto* to = at(arguments.outputs[0], pool_.gradient);
    const size_t rank = pool_.gradient.shape.size();
    std::array<int64_t, 3> extents{1, 1, 1}, strides{};
    for (size_t i = 2; i < rank; ++i) {
      extents[i + 3 - rank] = pool_.gradient.shape[i];
      strides[i + 3 - rank] = pool_.gradient.strides[i];
    }
    const auto* sum = sums.data();
    for (int64_t i = 0; i < extents[0]; ++i) {
      for (int64_t j = 0; j < extents[1]; ++j) {
        for (int64_t k = 0; k < extents[2]; ++k)
          to[i * strides[0] + j * strides[1] + k * strides[2]] = E::Store(*sum++);
      }
    }
  }

  template <typename E>
  void Spread(const typename E::Storage* g, typename E::Compute* sums) const {
    ForEachPlace(dense_, [&](const Taps& d, const Taps& h, const Taps& w, int64_t at) {
      const int64_t count = CountOf(d, h, w, pool_.form.count_include_pad);
      if (count == 0) return;
      const auto part = E::Load(g[at]) / static_cast<typename E::Compute>(count);
      ForEachTap(dense_, d, h, w, [&](int64_t to) { sums[to] += part; });
    });
  }

  template <typename E>
  void ToMaxima(const typename E::Storage* x, const typename E::Storage* g,
                typename E::Compute* sums) const {
    std::vector<int64_t> places;  // of the taps in the dense plane
    ForEachPlace(dense_, [&](const Taps& d, const Taps& h, const Taps& w, int64_t at) {
      places.clear();
      ForEachTap(dense_, d, h, w, [&](int64_t to) { places.push_back(to); });
      if (places.empty()) return;
      size_t tap = 0, first = 0;
      auto best = typename E::Compute{0};
      ForEachTap(pool_.read, d, h, w, [&](int64_t from) {
        const auto value = E::Load(x[from]);
        if (tap == 0 || value > best || (value != value && best == best)) {
          best = value;
          first = tap;
        }
        ++tap;
      });
      sums[places[first]] += E::Load(g[at]);
    });
  }

  const Backward pool_;
  PoolGeometry dense_;
  int64_t elements_ = 0;
};

constexpr int64_t kChannels = 64;  // speed: those that are worked on together

class Rows final : public Primitive {
 public:
  explicit Rows(Backward pool) : pool_(std::move(pool)) {}

  absl::Status Run(const Arguments& arguments) const override {
    const int64_t channels = pool_.form.channels, chunks = (channels - 1) / kChannels + 1;
    ParallelRanges(arguments.context, pool_.form.batch * chunks, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> places;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % chunks * kChannels;
        Chunk(arguments, i / chunks, first, std::min(kChannels, channels - first), places);
      }
    });
    return absl::OkStatus();
  }

 private:
  void Chunk(const Arguments& arguments, int64_t n, int64_t first, int64_t count,
             std::vector<int64_t>& places) const {
    const auto at = [&](void* data, const Operand& operand) {
      return static_cast<float*>(data) + n * operand.strides[0] + first;
    };
    const float* g = at(arguments.inputs[pool_.average ? 0 : 1], pool_.g);
    float* to = at(arguments.outputs[0], pool_.gradient);
    Clear(to, count);
    if (pool_.average) {
      Spread(g, to, count);
    } else {
      ToMaxima(at(arguments.inputs[0], pool_.x), g, to, count, places);
    }
  }

  void Clear(float* to, int64_t count) const {
    const ThreeAxes axes = Widen(pool_.form.axes);
    const auto& strides = pool_.written.in_stride;
    for (int64_t i = 0; i < axes[0].in; ++i) {
      for (int64_t j = 0; j < axes[1].in; ++j) {
        for (int64_t k = 0; k < axes[2].in; ++k)
          std::fill_n(to + i * strides[0] + j * strides[1] + k * strides[2], count, 0.0F);
      }
    }
  }

  void Spread(const float* g, float* to, int64_t count) const {
    std::array<float, kChannels> parts;
    ForEachPlace(pool_.written, [&](const Taps& d, const Taps& h, const Taps& w, int64_t at) {
      const int64_t taps = CountOf(d, h, w, pool_.form.count_include_pad);
      if (taps == 0) return;
      std::transform(g + at, g + at + count, parts.begin(),
                     [&](float one) { return one / static_cast<float>(taps); });
      ForEachTap(pool_.written, d, h, w,
                 [&](int64_t place) { rows_.add(to + place, parts.data(), count); });
    });
  }

  void ToMaxima(const float* x, const float* g, float* to, int64_t count,
                std::vector<int64_t>& places) const {
    std::array<float, kChannels> best;
    std::array<int32_t, kChannels> taps;
    ForEachPlace(pool_.written, [&](const Taps& d, const Taps& h, const Taps& w, int64_t at) {
      places.clear();
      ForEachTap(pool_.written, d, h, w, [&](int64_t place) { places.push_back(place); });
      if (places.empty()) return;
      int32_t tap = 0;
      ForEachTap(pool_.read, d, h, w, [&](int64_t place) {
        if (tap == 0) {
          std::copy_n(x + place, count, best.begin());
          std::fill_n(taps.begin(), count, 0);
        } else {
          rows_.track(best.data(), taps.data(), x + place, tap, count);
        }
        ++tap;
      });
      const int64_t* const place = places.data();
      const int32_t* const winner = taps.data();
      for (int64_t c = 0; c < count; ++c) to[place[winner[c]] + c] += g[at + c];
    });
  }

  const Backward pool_;
  const PoolRows& rows_ = GetPoolRows();
};

absl::StatusOr<std::unique_ptr<Primitive>> MakeRows(const Request& request, bool average) {
  KILN_ASSIGN_OR_RETURN(Backward pool, BackwardOf(request, average));
  KILN_RETURN_IF_ERROR(TakesF32(request));
  for (const Operand* operand : {&pool.x, &pool.g, &pool.gradient}) {
    if (operand->strides[1] != 1) return absl::UnimplementedError("channels are not innermost");
  }
  int64_t taps = 1;
  for (const WindowAxis& axis : pool.form.axes) {
    if (axis.kernel > std::numeric_limits<int32_t>::max() / taps)
      return absl::UnimplementedError("a window of more taps than 32 bits count");
    taps *= axis.kernel;
  }
  if (pool.form.channels == 0) return absl::UnimplementedError("no channels");
  return std::make_unique<Rows>(std::move(pool));
}

absl::StatusOr<std::unique_ptr<Primitive>> MakePlanes(const Request& request, bool average) {
  KILN_ASSIGN_OR_RETURN(Backward pool, BackwardOf(request, average));
  return std::make_unique<Planes>(std::move(pool));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeMaxPoolBackwardRows(
    const Request& request, const std::shared_ptr<Session>&) {
  return MakeRows(request, /*average=*/false);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeAveragePoolBackwardRows(
    const Request& request, const std::shared_ptr<Session>&) {
  return MakeRows(request, /*average=*/true);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeMaxPoolBackwardPlanes(
    const Request& request, const std::shared_ptr<Session>&) {
  return MakePlanes(request, /*average=*/false);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeAveragePoolBackwardPlanes(
    const Request& request, const std::shared_ptr<Session>&) {
  return MakePlanes(request, /*average=*/true);
}

}  // namespace kiln::library
