// SPDX-License-Identifier: Apache-2.0
#include "exec/library/pool_ops.h"

#include <algorithm>
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

template <typename E>
struct MaxRule {
  using Value = typename E::Compute;
  static Value Init() {
    if constexpr (std::numeric_limits<Value>::has_infinity)
      return -std::numeric_limits<Value>::infinity();
    return std::numeric_limits<Value>::lowest();
  }
  static Value Add(Value acc, Value x) { return acc != acc || acc > x ? acc : x; }
  static Value Finish(Value acc, int64_t) { return acc; }
};

template <typename E>
struct AverageRule {
  using Value = typename E::Compute;
  static Value Init() { return 0; }
  static Value Add(Value acc, Value x) { return static_cast<Value>(acc + x); }
  static Value Finish(Value acc, int64_t count) {
    return count == 0 ? Value{0} : acc / static_cast<Value>(count);
  }
};

template <typename E, typename Rule>
void Plane(const PoolGeometry& g, bool include_pad, const typename E::Storage* x,
           typename E::Storage* y) {
  for (size_t d = 0; d < g.taps[0].size(); ++d) {
    const Taps& td = g.taps[0][d];
    for (size_t h = 0; h < g.taps[1].size(); ++h) {
      const Taps& th = g.taps[1][h];
      for (size_t w = 0; w < g.taps[2].size(); ++w) {
        const Taps& tw = g.taps[2][w];
        auto acc = Rule::Init();
        for (int64_t i = td.first; i < td.last; ++i) {
          for (int64_t j = th.first; j < th.last; ++j) {
            const int64_t row = td.start * g.in_stride[0] + i * g.step[0] +
                                th.start * g.in_stride[1] + j * g.step[1] +
                                tw.start * g.in_stride[2];
            for (int64_t k = tw.first; k < tw.last; ++k)
              acc = Rule::Add(acc, E::Load(x[row + k * g.step[2]]));
          }
        }
        const int64_t count = CountOf(td, th, tw, include_pad);
        y[static_cast<int64_t>(d) * g.out_stride[0] + static_cast<int64_t>(h) * g.out_stride[1] +
          static_cast<int64_t>(w) * g.out_stride[2]] = E::Store(Rule::Finish(acc, count));
      }
    }
  }
}

class Pool final : public Primitive {
 public:
  Pool(const Request& request, const PoolForm& form, bool average)
      : average_(average),
        include_pad_(form.count_include_pad),
        type_(request.inputs[0].type),
        batch_(form.batch),
        channels_(form.channels) {
    const Operand &x = request.inputs[0], &y = request.outputs[0];
    x_batch_ = x.strides[0];
    x_channel_ = x.strides[1];
    y_batch_ = y.strides[0];
    y_channel_ = y.strides[1];
    geometry_ = GeometryOf(form, x, y);
  }

  absl::Status Run(const Arguments& arguments) const override {
    ForElement(type_, [&]<typename E>() {
      const auto* x = static_cast<const typename E::Storage*>(arguments.inputs[0]);
      auto* y = static_cast<typename E::Storage*>(arguments.outputs[0]);
      ParallelRanges(arguments.context, batch_ * channels_, [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane) {
          const int64_t n = plane / channels_, c = plane % channels_;
          const auto* from = x + n * x_batch_ + c * x_channel_;
          auto* to = y + n * y_batch_ + c * y_channel_;
          if (average_) {
            Plane<E, AverageRule<E>>(geometry_, include_pad_, from, to);
          } else {
            Plane<E, MaxRule<E>>(geometry_, false, from, to);
          }
        }
      });
    });
    return absl::OkStatus();
  }

 private:
  bool average_, include_pad_;
  DType type_;
  int64_t batch_, channels_, x_batch_, x_channel_, y_batch_, y_channel_;
  PoolGeometry geometry_;
};

// f32 with channels innermost in input and output: all channels of a tap at once, taps in the order
// of `Plane`, so the bits are the same.
class ChannelsLastPool final : public Primitive {
 public:
  ChannelsLastPool(const Request& request, const PoolForm& form, bool average)
      : average_(average),
        include_pad_(form.count_include_pad),
        batch_(form.batch),
        channels_(form.channels) {
    const Operand &x = request.inputs[0], &y = request.outputs[0];
    x_batch_ = x.strides[0];
    y_batch_ = y.strides[0];
    geometry_ = GeometryOf(form, x, y);
  }

  absl::Status Run(const Arguments& arguments) const override {
    const auto* x = static_cast<const float*>(arguments.inputs[0]);
    auto* y = static_cast<float*>(arguments.outputs[0]);
    const auto depth = static_cast<int64_t>(geometry_.taps[0].size()),
               height = static_cast<int64_t>(geometry_.taps[1].size());
    ParallelRanges(arguments.context, batch_ * depth * height, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t n = row / (depth * height);
        Row(x + n * x_batch_, y + n * y_batch_, row / height % depth, row % height);
      }
    });
    return absl::OkStatus();
  }

 private:
  void Row(const float* x, float* y, int64_t d, int64_t h) const {
    const Taps &td = geometry_.taps[0][static_cast<size_t>(d)],
               &th = geometry_.taps[1][static_cast<size_t>(h)];
    y += d * geometry_.out_stride[0] + h * geometry_.out_stride[1];
    for (const Taps& tw : geometry_.taps[2]) {
      Pixel(x, y, td, th, tw);
      y += geometry_.out_stride[2];
    }
  }

  void Pixel(const float* x, float* y, const Taps& td, const Taps& th, const Taps& tw) const {
    const PoolGeometry& g = geometry_;
    const auto apply = average_ ? rows_.add : rows_.max;
    const float init = average_ ? AverageRule<Plain<float>>::Init() : MaxRule<Plain<float>>::Init();
    std::fill(y, y + channels_, init);
    for (int64_t i = td.first; i < td.last; ++i) {
      for (int64_t j = th.first; j < th.last; ++j) {
        const float* row = x + td.start * g.in_stride[0] + i * g.step[0] +
                           th.start * g.in_stride[1] + j * g.step[1] + tw.start * g.in_stride[2];
        for (int64_t k = tw.first; k < tw.last; ++k) apply(y, row + k * g.step[2], channels_);
      }
    }
    if (!average_) return;
    const int64_t count = CountOf(td, th, tw, include_pad_);
    for (int64_t c = 0; c < channels_; ++c) y[c] = AverageRule<Plain<float>>::Finish(y[c], count);
  }

  const bool average_, include_pad_;
  const int64_t batch_, channels_;
  int64_t x_batch_, y_batch_;
  const PoolRows& rows_ = GetPoolRows();
  PoolGeometry geometry_;
};

absl::StatusOr<PoolForm> CheckedForm(const Request& request, bool average) {
  if (average && !IsFloat(request.inputs[0].type)) {
    return absl::UnimplementedError(
        absl::StrCat("type ", Name(request.inputs[0].type), " is not supported; use a float type"));
  }
  return NormalizePool(request, average);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeRows(const Request& request, bool average) {
  KILN_ASSIGN_OR_RETURN(const PoolForm form, CheckedForm(request, average));
  KILN_RETURN_IF_ERROR(TakesF32(request));
  if (request.inputs[0].strides[1] != 1 || request.outputs[0].strides[1] != 1)
    return absl::UnimplementedError("channels are not innermost");
  return std::make_unique<ChannelsLastPool>(request, form, average);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakePlanes(const Request& request, bool average) {
  KILN_ASSIGN_OR_RETURN(const PoolForm form, CheckedForm(request, average));
  return std::make_unique<Pool>(request, form, average);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeMaxPoolRows(const Request& request,
                                                           const std::shared_ptr<Session>&) {
  return MakeRows(request, /*average=*/false);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeMaxPoolPlanes(const Request& request,
                                                             const std::shared_ptr<Session>&) {
  return MakePlanes(request, /*average=*/false);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeAveragePoolRows(const Request& request,
                                                               const std::shared_ptr<Session>&) {
  return MakeRows(request, /*average=*/true);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeAveragePoolPlanes(const Request& request,
                                                                 const std::shared_ptr<Session>&) {
  return MakePlanes(request, /*average=*/true);
}

}  // namespace kiln::library
