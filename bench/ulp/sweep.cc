// SPDX-License-Identifier: Apache-2.0
#include "bench/ulp/sweep.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bench/ulp/executor.h"
#include "bench/ulp/inputs.h"
#include "kernel/naive.h"

namespace kiln::ulp {
namespace {

double ToDouble(DType type, const void* data, size_t i) {
  const uint64_t bits = LoadElement(data, type, static_cast<int64_t>(i));
  return type == DType::kF64 ? std::bit_cast<double>(bits)
                             : std::bit_cast<float>(static_cast<uint32_t>(bits));
}

class Sweep {
 public:
  Sweep(const Function& function, DType type, std::vector<Executor> executors)
      : function_(function), type_(type), executors_(std::move(executors)) {
    result_.operands = function.operands();
    for (const Executor& executor : executors_) {
      result_.executors += (result_.executors.empty() ? "" : ", ") + executor.name;
    }
  }

  // One set of arrays through all executors.
  absl::Status Run(Arrays& inputs) {
    const size_t n = inputs.x.size() / SizeOf(type_);
    std::vector<std::vector<uint8_t>> outputs(executors_.size(),
                                              std::vector<uint8_t>(inputs.x.size()));
    for (size_t e = 0; e < executors_.size(); ++e) {
      KILN_RETURN_IF_ERROR(executors_[e].run(inputs.x.data(), inputs.y.data(), outputs[e].data(),
                                             static_cast<int64_t>(n)));
      if (e > 0 && outputs[e] != outputs[0]) Compare(outputs[0], outputs[e], n);
    }
    for (size_t i = 0; i < n; ++i) {
      const double x = ToDouble(type_, inputs.x.data(), i);
      const double y = inputs.y.empty() ? 0 : ToDouble(type_, inputs.y.data(), i);
      Measure(x, y, ToDouble(type_, outputs[0].data(), i));
    }
    result_.count += n;
    return absl::OkStatus();
  }

  SweepResult& result() { return result_; }

 private:
  void Compare(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      const double x = ToDouble(type_, a.data(), i), y = ToDouble(type_, b.data(), i);
      const bool same =
          (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
      result_.differing += same ? 0 : 1;
    }
  }

  // `got` is -f(-x) or -f(-x, y).
  void Measure(double x, double y, double got) {
    const bool one = function_.operands() == 1;
    double error = 0;
    if (type_ == DType::kF64) {
      const auto of = -static_cast<long double>(x);
      error = Error(type_, got, one ? -function_.exact(of) : -function_.exact_of_two(of, y));
    } else {
      const double want = one ? -function_.quick(-x) : -function_.quick_of_two(-x, y);
      if (IsNearest(type_, got, want)) return;
      error = Error(type_, got, want);
    }
    if (error > result_.worst) {
      result_.worst = error;
      result_.x = -x;
      result_.y = y;
    }
  }

  const Function& function_;
  DType type_;
  std::vector<Executor> executors_;
  SweepResult result_;
};

}  // namespace

std::string SweepResult::Error() const {
  return absl::StrFormat("%.2f", std::max(0.5, std::ceil(worst * 100 - 1e-6) / 100));
}

std::string SweepResult::At() const {
  return operands == 1 ? absl::StrFormat("%a", x) : absl::StrFormat("%a, %a", x, y);
}

std::string SweepResult::Inputs() const { return all ? "all" : absl::StrCat(count); }

std::string SweepResult::SameBits() const { return differing == 0 ? executors : "BITS DIFFER"; }

absl::StatusOr<SweepResult> RunSweep(const Function& function, DType type, uint64_t stride) {
  KILN_ASSIGN_OR_RETURN(std::vector<Executor> executors,
                        Executors(function.op, type, function.has_operator));
  const Inputs inputs(type, function.operands());
  Sweep sweep(function, type, std::move(executors));
  constexpr uint64_t kChunk = uint64_t{1} << 18;
  Arrays arrays;
  uint64_t tail = 0;
  for (uint64_t index = 0; index < inputs.size();) {
    arrays.x.clear();
    arrays.y.clear();
    tail = tail % 15 + 1;
    for (uint64_t k = 0; k < kChunk + tail && index < inputs.size(); ++k, index += stride)
      inputs.Append(index, arrays);
    KILN_RETURN_IF_ERROR(sweep.Run(arrays));
  }
  sweep.result().all = stride == 1 && inputs.all();
  return sweep.result();
}

}  // namespace kiln::ulp
