// SPDX-License-Identifier: Apache-2.0
// The input of a convolution of bytes as numbers of 16 bits less the zero point, with the padding,
// which is 0 then, and the channels innermost: a window is read without looking at edges.
//
//   [image][line of the outer axes][point][group][channel of the group, padded with zeros]
#ifndef KILN_EXEC_LIBRARY_PADDED_IMAGE_H_
#define KILN_EXEC_LIBRARY_PADDED_IMAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "exec/library/pair_product.h"
#include "exec/library/primitive.h"
#include "exec/library/shapes.h"

namespace kiln::library {

class PaddedImage {
 public:
  // `group` elements for each of the groups, of which those beyond `form.in_channels` are zeros.
  // kUnimplemented where paddings and strides would make it much larger than the input.
  static absl::StatusOr<PaddedImage> Make(const Operand& x, const ConvForm& form, int64_t group);

  int64_t bytes() const;
  int64_t group_elements() const { return group_; }
  int64_t point_elements() const { return form_.groups * group_; }
  // Where the window of the output at (z, y, x) of image n begins, and how far on a tap of it is.
  int64_t Window(int64_t n, int64_t z, int64_t y, int64_t x) const;
  int64_t Tap(int64_t z, int64_t y, int64_t x) const;

  void Fill(const PairLoops& loops, const void* x, int zero, int16_t* to,
            LaunchContext* context) const;

 private:
  PaddedImage(const Operand& x, const ConvForm& form, int64_t group);
  void FillLine(const PairLoops& loops, const Bytes& line, int zero, int16_t* to) const;

  DType type_;
  ConvForm form_;
  ThreeAxes axes_;
  std::array<int64_t, 3> extents_;  // with padding, as far as windows reach
  std::array<int64_t, 5> steps_{};  // of x: image, channel, three axes
  int64_t group_;
};

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_PADDED_IMAGE_H_
