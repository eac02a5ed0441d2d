// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/integer_ops.h"
#include "exec/library/loops.h"
#include "exec/library/padded_image.h"
#include "exec/library/pair_product.h"
#include "exec/library/requantize.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

constexpr int64_t kAlign = 64;  // correctness

int64_t RoundUp(int64_t n, int64_t to) { return DivideUp(n, to) * to; }

// Steps along the three axes of a window or of an output, and how many channels are apart.
struct Steps {
  int64_t first, channel;  // the first axis: images, or output channels of the weight
  std::array<int64_t, 3> axes{};
};
Steps StepsOf(const Operand& operand) {
  Steps steps{operand.strides[0], operand.strides[1]};
  const size_t spatial = operand.strides.size() - 2;
  for (size_t i = 0; i < spatial; ++i) steps.axes[3 - spatial + i] = operand.strides[2 + i];
  return steps;
}

const Operand* WeightZeros(const Request& request) {
  return request.inputs.size() > 3 && request.inputs[3].present ? &request.inputs[3] : nullptr;
}

// From channel to channel among the zero points of the weight.
int64_t ZeroStep(const Request& request) {
  const Operand* const zeros = WeightZeros(request);
  const bool one = zeros == nullptr || zeros->shape.empty() || zeros->shape[0] == 1;
  return one ? 0 : zeros->strides[0];
}

// The taps of a window that lie side by side in the image are a segment: along the last axis if
// there is one group.
PairForm FormOf(const Request& request, const ConvForm& form, const PaddedImage& image) {
  const auto [d, h, w] = Widen(form.axes);
  const Steps weight = StepsOf(request.inputs[1]);
  const bool rows = form.groups == 1 && w.dilation == 1;
  const int64_t joined = rows ? w.kernel : 1, group = image.group_elements();
  PairForm f{.pairs = joined * group / 2,
             .columns = form.out_channels,
             .w_column = weight.first,
             .zero_column = ZeroStep(request)};
  for (int64_t z = 0; z < d.kernel; ++z) {
    for (int64_t y = 0; y < h.kernel; ++y) {
      for (int64_t x = 0; x < w.kernel; ++x) {
        if (x % joined == 0) f.offsets.push_back(image.Tap(z, y, x));
        const int64_t tap = z * weight.axes[0] + y * weight.axes[1] + x * weight.axes[2];
        for (int64_t c = 0; c < group; ++c)
          f.terms.push_back(c < form.in_channels ? tap + c * weight.channel : -1);
      }
    }
  }
  return f;
}

// A convolution of bytes as it is called: conv_integer, or QLinearConv with what becomes of sums.
struct Call {
  Request request;  // as conv_integer
  ConvForm form;
  std::array<size_t, 4> inputs = {0, 1, 2, 3};  // of the call: x, w and their zero points
  std::optional<Requantizer> requantizer;
};

int64_t Taps(const ConvForm& form) {
  int64_t taps = 1;
  for (const WindowAxis& axis : form.axes) taps *= axis.kernel;
  return taps;
}

absl::StatusOr<Call> AsCall(const Request& request, bool quantised) {
  Call call;
  call.request = request;
  if (quantised) {
    call.inputs = {0, 3, 2, 5};
    call.request.inputs.clear();
    for (const size_t k : call.inputs) call.request.inputs.push_back(request.inputs[k]);
    call.request.outputs[0].type = DType::kI32;
  }
  KILN_ASSIGN_OR_RETURN(const Request plain, AsConv(call.request));
  KILN_ASSIGN_OR_RETURN(call.form, NormalizeConv(plain, /*transposed=*/false));
  if (quantised) {
    KILN_ASSIGN_OR_RETURN(call.requantizer,
                          Requantizer::Make(request, call.form.in_channels * Taps(call.form)));
  }
  return call;
}

// What both implementations hold: the padded image, and where results go. Scratch is the image,
// what becomes of sums, then the rest.
class IntegerConv : public Primitive {
 public:
  IntegerConv(const PairLoops& loops, Call call, PaddedImage image)
      : loops_(loops),
        call_(std::move(call)),
        form_(call_.form),
        axes_(Widen(form_.axes)),
        image_(std::move(image)),
        y_(StepsOf(call_.request.outputs[0])) {}

  int64_t scratch_bytes() const override {
    const int64_t channels = call_.requantizer ? call_.requantizer->scratch_bytes() : 0;
    return RoundUp(image_.bytes(), kAlign) + RoundUp(channels, kAlign);
  }
  std::string description() const override { return loops_.name; }

 protected:
  const void* Input(const Arguments& arguments, size_t k) const {
    return k < call_.request.inputs.size() ? arguments.inputs[call_.inputs[k]] : nullptr;
  }
  const int16_t* FillImage(const Arguments& arguments) const {
    auto* const to = static_cast<int16_t*>(arguments.scratch);
    const DType type = call_.request.inputs[0].type;
    image_.Fill(loops_, Input(arguments, 0), Bytes(Input(arguments, 2), type)[0], to,
                arguments.context);
    return to;
  }
  std::optional<RequantizeChannels> FillChannels(const Arguments& arguments) const {
    if (!call_.requantizer) return std::nullopt;
    return call_.requantizer->Fill(
        arguments, static_cast<uint8_t*>(arguments.scratch) + RoundUp(image_.bytes(), kAlign));
  }
  // The sums of `count` points as bytes: `columns` channels from the `first` on, at these places.
  void StoreBytes(const RequantizeChannels& channels, int64_t first, int64_t columns,
                  const int32_t* sums, int64_t count, const int64_t* places, void* to) const {
    constexpr int64_t kMore = RequantizeChannels::kMore;
    auto* const y = static_cast<uint8_t*>(to);
    uint8_t bytes[PairProduct::kMostRows * kMore];
    for (int64_t r = 0; r < count; ++r) {
      call_.requantizer->run()(channels, first, columns, sums + r * kMore,
                               y_.channel == 1 ? y + places[r] : bytes + r * kMore);
    }
    if (y_.channel != 1) StoreByChannel(bytes, count, columns, places, y_.channel, y);
  }

  const PairLoops& loops_;
  const Call call_;
  const ConvForm& form_;
  const ThreeAxes axes_;
  const PaddedImage image_;
  const Steps y_;
};

class PairConv final : public IntegerConv {
 public:
  PairConv(const PairLoops& loops, Call call, PaddedImage image, PairProduct product,
           PairMatrices matrices)
      : IntegerConv(loops, std::move(call), std::move(image)),
        product_(std::move(product)),
        matrices_(std::move(matrices)) {}

  int64_t packed_bytes() const override { return matrices_.packed_bytes(); }
  int64_t scratch_bytes() const override {
    return IntegerConv::scratch_bytes() + matrices_.scratch_bytes();
  }

  absl::Status Run(const Arguments& arguments) const override {
    const Operands operands = {
        FillImage(arguments),
        matrices_.Get(product_, Input(arguments, 1), Input(arguments, 3),
                      static_cast<uint8_t*>(arguments.scratch) + IntegerConv::scratch_bytes(),
                      arguments.context),
        FillChannels(arguments), arguments.outputs[0]};
    // Chunks of rows, which are points of the output, meet all panels, one by one.
    const int64_t points = axes_[0].out * axes_[1].out * axes_[2].out, panels = product_.panels(),
                  chunks = DivideUp(points, PairProduct::kMostRows);
    ParallelRanges(arguments.context, form_.batch * form_.groups * chunks * panels,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t outer = i / panels / chunks;
                       RunUnit(operands, outer / form_.groups, outer % form_.groups,
                               i / panels % chunks * PairProduct::kMostRows, i % panels);
                     }
                   });
    return absl::OkStatus();
  }

 private:
  struct Operands {
    const int16_t *image, *weights;
    std::optional<RequantizeChannels> channels;
    void* y;
  };

  void RunUnit(const Operands& operands, int64_t n, int64_t group, int64_t first,
               int64_t panel) const {
    const auto& [d, h, w] = axes_;
    const int64_t count = std::min(PairProduct::kMostRows, d.out * h.out * w.out - first);
    const int64_t channel = group * form_.out_channels + product_.first_column(panel);
    const int16_t* rows[PairProduct::kMostRows];
    int64_t places[PairProduct::kMostRows];  // in y
    const int16_t* const image = operands.image + group * image_.group_elements();
    int64_t line = first / w.out, column = first % w.out;
    for (int64_t r = 0; r < count;) {
      const int64_t from = image_.Window(n, line / h.out, line % h.out, 0);
      const int64_t to = n * y_.first + channel * y_.channel + line / h.out * y_.axes[0] +
                         line % h.out * y_.axes[1];
      for (; r < count && column < w.out; ++r, ++column) {
        rows[r] = image + from + column * w.stride * image_.point_elements();
        places[r] = to + column * y_.axes[2];
      }
      ++line;
      column = 0;
    }
    const int16_t* const weights =
        operands.weights + group * product_.panels() * product_.panel_elements();
    int32_t* sums[PairProduct::kMostRows] = {};
    if (!operands.channels) {
      for (int64_t r = 0; r < count; ++r) sums[r] = static_cast<int32_t*>(operands.y) + places[r];
      product_.Run(weights, panel, product_.columns(panel), rows, count, sums, y_.channel);
      return;
    }
    static_assert(kMostPairColumns == RequantizeChannels::kMore);
    alignas(64) int32_t tile[PairProduct::kMostRows][kMostPairColumns];
    for (int64_t r = 0; r < count; ++r) sums[r] = tile[r];
    product_.Run(weights, panel, loops_.columns, rows, count, sums, 1);
    StoreBytes(*operands.channels, channel, product_.columns(panel), tile[0], count, places,
               operands.y);
  }

  const PairProduct product_;
  const PairMatrices matrices_;
};

// Weights of a depthwise convolution in the order of DepthwisePairs, two taps side by side.
void PackDepthwise(const Request& request, const ConvForm& form, int64_t pairs, int16_t* to) {
  const auto [d, h, last] = Widen(form.axes);
  const Operand &w = request.inputs[1], *const zero = WeightZeros(request);
  const Bytes weights(w.constant, w.type),
      zeros(zero == nullptr ? nullptr : zero->constant, w.type);
  const Steps steps = StepsOf(w);
  std::fill_n(to, RoundUp(form.groups, kDepthwisePairs) * pairs * 2, int16_t{0});
  for (int64_t c = 0; c < form.groups; ++c) {
    for (int64_t t = 0; t < d.kernel * h.kernel * last.kernel; ++t) {
      const int64_t at = t / last.kernel / h.kernel * steps.axes[0] +
                         t / last.kernel % h.kernel * steps.axes[1] +
                         t % last.kernel * steps.axes[2];
      const int64_t block = (c / kDepthwisePairs * pairs + t / 2) * kDepthwisePairs;
      to[2 * (block + DepthwiseLane(c % kDepthwisePairs)) + t % 2] =
          static_cast<int16_t>(weights[c * steps.first + at] - zeros[c * ZeroStep(request)]);
    }
  }
}

class PairDepthwise final : public IntegerConv {
 public:
  PairDepthwise(const PairLoops& loops, Call call, PaddedImage image,
                std::shared_ptr<const void> packed)
      : IntegerConv(loops, std::move(call), std::move(image)), packed_(std::move(packed)) {
    for (int64_t z = 0; z < axes_[0].kernel; ++z) {
      for (int64_t y = 0; y < axes_[1].kernel; ++y) {
        for (int64_t x = 0; x < axes_[2].kernel; ++x) taps_.push_back(image_.Tap(z, y, x));
      }
    }
    if (taps_.size() % 2 != 0) taps_.push_back(taps_.back());  // its weights are zeros
  }

  int64_t packed_bytes() const override {
    return RoundUp(form_.groups, kDepthwisePairs) * Pairs() * 2 * int64_t{sizeof(int16_t)};
  }

  absl::Status Run(const Arguments& arguments) const override {
    const int16_t* const image = FillImage(arguments);
    const std::optional<RequantizeChannels> channels = FillChannels(arguments);
    const int64_t planes = axes_[0].out, lines = axes_[1].out;
    ParallelRanges(
        arguments.context, form_.batch * planes * lines, [&](int64_t begin, int64_t end) {
          for (int64_t line = begin; line < end; ++line) {
            const int64_t n = line / lines / planes, z = line / lines % planes, y = line % lines;
            const int16_t* const from = image + image_.Window(n, z, y, 0);
            const int64_t to = n * y_.first + z * y_.axes[0] + y * y_.axes[1];
            auto* const sums = static_cast<int32_t*>(arguments.outputs[0]);
            if (!channels && y_.channel == 1) {
              RunPoints(from, 0, axes_[2].out, 0, form_.groups, sums + to, y_.axes[2]);
              continue;
            }
            RunTiles(from, to, [&](const Tile& tile) {
              if (channels) {
                StoreBytes(*channels, tile.channel, tile.channels, tile.sums, tile.points,
                           tile.places, arguments.outputs[0]);
                return;
              }
              for (int64_t i = 0; i < tile.points; ++i) {
                for (int64_t c = 0; c < tile.channels; ++c)
                  sums[tile.places[i] + c * y_.channel] =
                      tile.sums[i * RequantizeChannels::kMore + c];
              }
            });
          }
        });
    return absl::OkStatus();
  }

 private:
  int64_t Pairs() const { return static_cast<int64_t>(taps_.size()) / 2; }

  void RunPoints(const int16_t* line, int64_t point, int64_t points, int64_t channel,
                 int64_t channels, int32_t* y, int64_t y_step) const {
    const int64_t step = axes_[2].stride * image_.point_elements();
    loops_.depthwise({.x = line + point * step + channel,
                      .x_step = step,
                      .offsets = taps_.data(),
                      .pairs = Pairs(),
                      .channels = channels,
                      .points = points,
                      .w = static_cast<const int16_t*>(packed_.get()) + channel * Pairs() * 2,
                      .y = y,
                      .y_step = y_step});
  }

  // Sums of some channels of neighbouring points, and where in y the first channel's go.
  struct Tile {
    int64_t channel, channels, points;
    const int32_t* sums;
    const int64_t* places;
  };
  // store(tile) for all of a line, which begins at `to` in y.
  template <typename Store>
  void RunTiles(const int16_t* line, int64_t to, const Store& store) const {
    constexpr int64_t kPoints = 32, kChannels = RequantizeChannels::kMore;  // speed
    static_assert(kChannels % kDepthwisePairs == 0 && kPoints <= PairProduct::kMostRows);
    alignas(64) int32_t sums[kPoints * kChannels] = {};
    int64_t places[kPoints];
    for (int64_t x = 0; x < axes_[2].out; x += kPoints) {
      const int64_t points = std::min(kPoints, axes_[2].out - x);
      for (int64_t c = 0; c < form_.groups; c += kChannels) {
        const int64_t count = std::min(kChannels, form_.groups - c);
        RunPoints(line, x, points, c, count, sums, kChannels);
        for (int64_t i = 0; i < points; ++i) places[i] = to + (x + i) * y_.axes[2] + c * y_.channel;
        store(Tile{c, count, points, sums, places});
      }
    }
  }

  std::vector<int64_t> taps_;
  const std::shared_ptr<const void> packed_;
};

absl::StatusOr<std::unique_ptr<Primitive>> MakeConv(const PairLoops& loops, Call call,
                                                    const std::shared_ptr<Session>& session) {
  const ConvForm& form = call.form;
  KILN_ASSIGN_OR_RETURN(PaddedImage image, PaddedImage::Make(call.request.inputs[0], form,
                                                             RoundUp(form.in_channels, 2)));
  PairProduct product(loops, FormOf(call.request, form, image));
  std::vector<int64_t> starts, zero_starts;
  for (int64_t g = 0; g < form.groups; ++g) {
    starts.push_back(g * form.out_channels * product.form().w_column);
    zero_starts.push_back(g * form.out_channels * product.form().zero_column);
  }
  KILN_ASSIGN_OR_RETURN(
      PairMatrices matrices,
      PairMatrices::Make(product, call.request.inputs[1], WeightZeros(call.request),
                         std::move(starts), std::move(zero_starts), session));
  return std::make_unique<PairConv>(loops, std::move(call), std::move(image), std::move(product),
                                    std::move(matrices));
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeDepthwise(const PairLoops& loops, Call call,
                                                         const std::shared_ptr<Session>& session) {
  const ConvForm& form = call.form;
  if (form.groups == 1 || form.in_channels != 1 || form.out_channels != 1)
    return absl::UnimplementedError("not a group for each channel");
  ConvForm joined = form;
  std::swap(joined.groups, joined.in_channels);
  KILN_ASSIGN_OR_RETURN(
      PaddedImage image,
      PaddedImage::Make(call.request.inputs[0], joined, RoundUp(form.groups, kDepthwisePairs)));
  const int64_t pairs = DivideUp(Taps(form), 2);
  KILN_ASSIGN_OR_RETURN(
      std::shared_ptr<const void> packed,
      PackedOnce(
          call.request.inputs[1], WeightZeros(call.request),
          absl::StrCat("pairs of taps: ", form.groups, " x ", Taps(form)),
          RoundUp(form.groups, kDepthwisePairs) * pairs * 2 * int64_t{sizeof(int16_t)}, session,
          [&](void* to) { PackDepthwise(call.request, form, pairs, static_cast<int16_t*>(to)); }));
  if (packed == nullptr) return absl::UnimplementedError("the weights are no constant");
  return std::make_unique<PairDepthwise>(loops, std::move(call), std::move(image),
                                         std::move(packed));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakePairConvWith(
    const PairLoops& loops, bool quantised, const Request& request,
    const std::shared_ptr<Session>& session) {
  KILN_ASSIGN_OR_RETURN(Call call, AsCall(request, quantised));
  return MakeConv(loops, std::move(call), session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakePairDepthwiseWith(
    const PairLoops& loops, bool quantised, const Request& request,
    const std::shared_ptr<Session>& session) {
  KILN_ASSIGN_OR_RETURN(Call call, AsCall(request, quantised));
  return MakeDepthwise(loops, std::move(call), session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakePairConv(const Request& request,
                                                        const std::shared_ptr<Session>& session) {
  return MakePairConvWith(AllPairLoops()[0], /*quantised=*/false, request, session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakePairDepthwise(
    const Request& request, const std::shared_ptr<Session>& session) {
  return MakePairDepthwiseWith(AllPairLoops()[0], /*quantised=*/false, request, session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeQuantisedConv(
    const Request& request, const std::shared_ptr<Session>& session) {
  return MakePairConvWith(AllPairLoops()[0], /*quantised=*/true, request, session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeQuantisedDepthwise(
    const Request& request, const std::shared_ptr<Session>& session) {
  return MakePairDepthwiseWith(AllPairLoops()[0], /*quantised=*/true, request, session);
}

}  // namespace kiln::library
