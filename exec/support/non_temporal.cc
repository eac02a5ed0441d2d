// SPDX-License-Identifier: Apache-2.0
#include "exec/support/non_temporal.h"

#include <algorithm>
#include <cstdint>

#include "exec/support/caches.h"

namespace kiln {
namespace {

// Of what is a quarter larger than the last-level cache, much stays in it.
constexpr double kCache = kL3Bytes + kL3Bytes / 4;  // speed

// Of an operand: bytes, however large it is.
double BytesOf(const OperandShape& operand) {
  double bytes = static_cast<double>(operand.item);
  for (size_t axis = 0; axis < operand.shape.size(); ++axis) {
    if (operand.strides[axis] != 0) bytes *= static_cast<double>(operand.shape[axis]);
  }
  return bytes;
}

}  // namespace

bool ExceedsCache(std::span<const OperandShape> operands, size_t inputs) {
  double all = 0, written = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const double bytes = BytesOf(operands[i]);
    all += bytes;
    if (i >= inputs) written += bytes;
  }
  return all >= kCache && written >= all / 8;
}

bool MayStoreNonTemporal(std::span<const BufferArg> operands, size_t inputs) {
  const auto outputs = operands.subspan(inputs);
  return std::all_of(outputs.begin(), outputs.end(), [&](const BufferArg& output) {
    const auto read = operands.first(inputs);
    return WholeLines(output) && std::none_of(read.begin(), read.end(), [&](const BufferArg& in) {
             return in.host == output.host;
           });
  });
}

}  // namespace kiln
