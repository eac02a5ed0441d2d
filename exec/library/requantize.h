// SPDX-License-Identifier: Apache-2.0
// Sums of products of bytes as bytes again: per channel
//     y = clip(round(((sum + bias) * x_scale) * w_scale / y_scale) + y_zero)
// in f64, rounded to even, NaN to 0.
//
// f32 is enough unless the quotient is near a tie between two bytes: (sum + bias) * factor, with
// the factor x_scale * w_scale / y_scale, is off by less than 2^-12 where it is below 600, and what
// is larger is clipped. Only results that lie nearer to a tie are computed in f64.
#ifndef KILN_EXEC_LIBRARY_REQUANTIZE_H_
#define KILN_EXEC_LIBRARY_REQUANTIZE_H_

#include <array>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// Of each channel, one after the other; readable for kMore channels beyond the last.
struct RequantizeChannels {
  static constexpr int64_t kMore = 32;  // correctness
  const double *x_scale, *w_scale, *y_scale;
  const int32_t *bias, *zero;
  const float* factor;  // NaN: f32 is not enough
  bool is_signed;       // the bytes
};

// The bytes of `count` channels from the `first` on, at most kMore; as many sums are readable as
// make whole registers of 16.
using RequantizeFn = void (*)(const RequantizeChannels& channels, int64_t first, int64_t count,
                              const int32_t* sums, uint8_t* y);
// All of this processor's; they give the same. The first is the fastest, the last plain.
std::span<const RequantizeFn> AllRequantize();

// y[places[r] + c * step] = bytes[r * kMore + c] for `count` points r and `columns` channels c.
void StoreByChannel(const uint8_t* bytes, int64_t count, int64_t columns, const int64_t* places,
                    int64_t step, uint8_t* y);

// Byte `channel` from its sum.
uint8_t RequantizeExactly(const RequantizeChannels& channels, int64_t channel, int32_t sum);

// The scales, zero point and bias of a quantised convolution as it is called, in the order of
// QLinearConv: inputs 1, 4, 6, 7 and, if there is one, 8; one element or one for each channel.
class Requantizer {
 public:
  // Sums of `terms` products.
  static absl::StatusOr<Requantizer> Make(const Request& request, int64_t terms,
                                          RequantizeFn run = AllRequantize()[0]);
  int64_t scratch_bytes() const;
  // The channels of a run, laid out in scratch.
  RequantizeChannels Fill(const Arguments& arguments, void* scratch) const;
  RequantizeFn run() const { return run_; }

 private:
  int64_t channels_ = 0, terms_ = 0;
  std::array<int64_t, 5> steps_{};  // of the inputs from channel to channel
  bool has_bias_ = false, is_signed_ = false;
  RequantizeFn run_ = nullptr;
};

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_REQUANTIZE_H_
