// SPDX-License-Identifier: Apache-2.0
#include "exec/library/lookup.h"

#include <algorithm>

#include "base/status_macros.h"
#include "exec/library/lookup_rows.h"
#include "exec/library/loops.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

constexpr int64_t kTableBytes = 256;  // correctness
constexpr int64_t kGrain = 16 << 10;  // speed: bytes: some microseconds

class Lookup final : public Primitive {
 public:
  Lookup(const Around& x, bool one_row) : x_(x), one_row_(one_row) {}

  absl::Status Run(const Arguments& arguments) const override {
    const auto* x = static_cast<const uint8_t*>(arguments.inputs[0]);
    const auto* table = static_cast<const uint8_t*>(arguments.inputs[1]);
    auto* y = static_cast<uint8_t*>(arguments.outputs[0]);
    const int64_t all = x_.outer * x_.extent * x_.inner, row = one_row_ ? all : x_.inner;
    ParallelRanges(arguments.context, DivideUp(all, kGrain), [&](int64_t first, int64_t last) {
      const int64_t end = std::min(last * kGrain, all), tables = one_row_ ? 1 : x_.extent;
      int64_t i = first * kGrain, of_table = i / row % tables;
      for (int64_t n = row - i % row; i < end; n = row) {
        n = std::min(n, end - i);
        row_(x + i, table + of_table * kTableBytes, y + i, n);
        i += n;
        of_table = of_table + 1 < tables ? of_table + 1 : 0;
      }
    });
    return absl::OkStatus();
  }

 private:
  const Around x_;
  const bool one_row_;
  const LookupRow row_ = LookupRows().front();
};

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeLookup(const Request& request,
                                                      const std::shared_ptr<Session>&) {
  for (const Operand& operand : {request.inputs[0], request.inputs[1], request.outputs[0]}) {
    if (SizeOf(operand.type) != 1) return absl::InvalidArgumentError("operands must be of bytes");
  }
  KILN_RETURN_IF_ERROR(RequireDense(request));
  KILN_ASSIGN_OR_RETURN(const Around x, AroundAxis(request));
  const std::vector<int64_t>& table = request.inputs[1].shape;
  const bool fits = table.size() == 2 && table[1] == kTableBytes &&
                    request.outputs[0].shape == request.inputs[0].shape;
  if (!fits || (table[0] != 1 && table[0] != x.extent))
    return absl::InvalidArgumentError("the table does not fit the axis");
  return std::make_unique<Lookup>(x, table[0] == 1);
}

}  // namespace kiln::library
