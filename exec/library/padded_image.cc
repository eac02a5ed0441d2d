// SPDX-License-Identifier: Apache-2.0
#include "exec/library/padded_image.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "exec/library/loops.h"

namespace kiln::library {

PaddedImage::PaddedImage(const Operand& x, const ConvForm& form, int64_t group)
    : type_(x.type), form_(form), axes_(Widen(form.axes)), group_(group) {
  for (size_t i = 0; i < 3; ++i) {
    const WindowAxis& axis = axes_[i];
    extents_[i] = (axis.out - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
  }
  steps_[0] = x.strides[0];
  steps_[1] = x.strides[1];
  const size_t spatial = x.strides.size() - 2;
  for (size_t i = 0; i < spatial; ++i) steps_[5 - spatial + i] = x.strides[2 + i];
}

absl::StatusOr<PaddedImage> PaddedImage::Make(const Operand& x, const ConvForm& form,
                                              int64_t group) {
  PaddedImage image(x, form, group);
  constexpr double kMostTimes = 8, kMostMore = 1 << 20;  // speed
  double elements = static_cast<double>(form.batch) * static_cast<double>(form.groups),
         own = elements * static_cast<double>(form.in_channels);
  elements *= static_cast<double>(group);
  for (size_t i = 0; i < 3; ++i) {
    elements *= static_cast<double>(image.extents_[i]);
    own *= static_cast<double>(image.axes_[i].in);
  }
  if (elements > own * kMostTimes + kMostMore) {
    return absl::UnimplementedError(
        absl::StrCat("with its padding the input has ", elements, " elements in place of ", own));
  }
  return image;
}

int64_t PaddedImage::bytes() const {
  return form_.batch * extents_[0] * extents_[1] * extents_[2] * point_elements() *
         int64_t{sizeof(int16_t)};
}

int64_t PaddedImage::Window(int64_t n, int64_t z, int64_t y, int64_t x) const {
  const int64_t line = (n * extents_[0] + z * axes_[0].stride) * extents_[1] + y * axes_[1].stride;
  return (line * extents_[2] + x * axes_[2].stride) * point_elements();
}

int64_t PaddedImage::Tap(int64_t z, int64_t y, int64_t x) const {
  const int64_t line = z * axes_[0].dilation * extents_[1] + y * axes_[1].dilation;
  return (line * extents_[2] + x * axes_[2].dilation) * point_elements();
}

void PaddedImage::Fill(const PairLoops& loops, const void* x, int zero, int16_t* to,
                       LaunchContext* context) const {
  const int64_t elements = extents_[2] * point_elements();
  const int64_t lines = form_.batch * extents_[0] * extents_[1];
  ParallelRanges(context, lines, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t line = i % extents_[1] - axes_[1].pad_begin;
      const int64_t plane = i / extents_[1] % extents_[0] - axes_[0].pad_begin;
      if (line < 0 || line >= axes_[1].in || plane < 0 || plane >= axes_[0].in) {
        std::fill_n(to + i * elements, elements, int16_t{0});
        continue;
      }
      const int64_t image = i / extents_[1] / extents_[0];
      FillLine(loops, Bytes(x, type_) + (image * steps_[0] + plane * steps_[2] + line * steps_[3]),
               zero, to + i * elements);
    }
  });
}

void PaddedImage::FillLine(const PairLoops& loops, const Bytes& line, int zero, int16_t* to) const {
  const WindowAxis& axis = axes_[2];
  const int64_t point = point_elements(), channels = form_.in_channels;
  const int64_t before = std::min(axis.pad_begin, extents_[2]);
  const int64_t count = std::min(axis.in, extents_[2] - before);
  std::fill_n(to, before * point, int16_t{0});
  std::fill_n(to + (before + count) * point, (extents_[2] - before - count) * point, int16_t{0});
  to += before * point;
  const bool dense = group_ == channels && (steps_[1] == 1 || point == 1);
  if (dense && (steps_[4] == point || count == 1)) {
    Widen(loops, line, 1, count * point, zero, to);
    return;
  }
  for (int64_t x = 0; x < count; ++x) {
    for (int64_t g = 0; g < form_.groups; ++g, to += group_) {
      Widen(loops, line + (x * steps_[4] + g * channels * steps_[1]), steps_[1], channels, zero,
            to);
      std::fill(to + channels, to + group_, int16_t{0});
    }
  }
}

}  // namespace kiln::library
