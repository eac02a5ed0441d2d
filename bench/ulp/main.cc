// SPDX-License-Identifier: Apache-2.0
// kiln-ulp: how exact the functions of kernels are. Prints a table row per function, in Markdown.
//
//   kiln-ulp [--type f32|f64|f16|bf16] [--function NAME]... [--stride N] [--check]
//
// f32, f16 and bf16: every N-th of all bit patterns (N = 1: all of them, and then "all" is
// printed). f64: 64 significands for each sign and exponent, and dense samples around 0 and 1. The
// first executor is measured against the C library (double, and long double where double does not
// decide); the others must give the same bits. Every array ends in a scalar tail of 1 to 15
// elements.
// --check: exit 1 where a bound is exceeded or bits differ. Results are in units of the last place.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "bench/ulp/executor.h"
#include "bench/ulp/functions.h"
#include "kiln/base/status_macros.h"
#include "kiln/kernel/naive.h"

namespace kiln::ulp {
namespace {

struct Settings {
  DType type = DType::kF32;
  std::vector<std::string> only;
  uint64_t stride = 1;
  bool check = false;
};

struct Result {
  double worst = 0, at = 0;
  uint64_t count = 0;
  uint64_t differing = 0;  // elements on which the executors disagree
  std::string executors;
};

double ToDouble(DType type, const void* data, size_t i) {
  const uint64_t bits = LoadElement(data, type, static_cast<int64_t>(i));
  return type == DType::kF64 ? std::bit_cast<double>(bits)
                             : std::bit_cast<float>(static_cast<uint32_t>(bits));
}

void AppendBits(std::vector<uint8_t>& to, uint64_t bits, size_t size) {
  const size_t at = to.size();
  to.resize(at + size);
  std::memcpy(to.data() + at, &bits, size);
}

// SplitMix64.
uint64_t Mix(uint64_t x) {
  x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The f64 sample, the same in every run.
std::vector<uint8_t> DoubleSample() {
  std::vector<uint8_t> sample;
  const auto add = [&sample](double x) {
    AppendBits(sample, std::bit_cast<uint64_t>(x), 8);
    AppendBits(sample, std::bit_cast<uint64_t>(-x), 8);
  };
  for (uint64_t exponent = 0; exponent < 2048; ++exponent) {
    for (uint64_t k = 0; k < 64; ++k) {
      const uint64_t fraction = k == 0 ? 0 : k == 1 ? ~uint64_t{0} : Mix(exponent * 64 + k);
      add(std::bit_cast<double>(exponent << 52 | fraction >> 12));
    }
  }
  for (uint64_t k = 0; k < 200000; ++k) {
    const double u = std::ldexp(static_cast<double>(Mix(k) >> 11), -53);
    add(u);
    add(1 + u);
    add(u * 40);
    add(u * 760);
    add(1 + std::ldexp(u - 0.5, -static_cast<int>(k % 50)));
  }
  return sample;
}

class Sweep {
 public:
  Sweep(const Function& function, DType type) : function_(function), type_(type) {}

  absl::Status Prepare() {
    KILN_ASSIGN_OR_RETURN(executors_, Executors(function_.op, type_, function_.has_operator));
    for (const Executor& executor : executors_) {
      result_.executors += (result_.executors.empty() ? "" : ", ") + executor.name;
    }
    return absl::OkStatus();
  }

  // One array of inputs through all executors.
  absl::Status Run(std::vector<uint8_t>& inputs) {
    const size_t size = SizeOf(type_), n = inputs.size() / size;
    std::vector<std::vector<uint8_t>> outputs(executors_.size(),
                                              std::vector<uint8_t>(inputs.size()));
    for (size_t e = 0; e < executors_.size(); ++e) {
      KILN_RETURN_IF_ERROR(
          executors_[e].run(inputs.data(), nullptr, outputs[e].data(), static_cast<int64_t>(n)));
      if (e > 0 && outputs[e] != outputs[0]) Compare(outputs[0], outputs[e], n);
    }
    for (size_t i = 0; i < n; ++i) {
      const double x = ToDouble(type_, inputs.data(), i);
      Measure(x, ToDouble(type_, outputs[0].data(), i));
    }
    result_.count += n;
    return absl::OkStatus();
  }

  const Result& result() const { return result_; }
  double bound() const {
    if (type_ == DType::kF64) return function_.bound64;
    return type_ == DType::kF32 ? function_.bound32 : 1;  // computed in f32, rounded once more
  }

 private:
  void Compare(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      const double x = ToDouble(type_, a.data(), i), y = ToDouble(type_, b.data(), i);
      const bool same =
          (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
      result_.differing += same ? 0 : 1;
    }
  }

  void Measure(double x, double got) {
    double error = 0;
    if (type_ == DType::kF64) {
      error = Error(type_, got, -function_.exact(-static_cast<long double>(x)));
    } else {
      const double want = -function_.quick(-x);
      // Nearest: within half a unit. The slow way is for the few others.
      if (type_ == DType::kF32 && static_cast<float>(want) == got && want != 0) return;
      error = Error(type_, got, want);
    }
    if (error > result_.worst) {
      result_.worst = error;
      result_.at = -x;
    }
  }

  const Function& function_;
  DType type_;
  std::vector<Executor> executors_;
  Result result_;
};

absl::Status RunAll(Sweep& sweep, const Settings& settings) {
  KILN_RETURN_IF_ERROR(sweep.Prepare());
  if (settings.type == DType::kF64) {
    std::vector<uint8_t> sample = DoubleSample();
    for (uint64_t k = 0; k < 3; ++k) AppendBits(sample, std::bit_cast<uint64_t>(0.25 + k), 8);
    return sweep.Run(sample);
  }
  const size_t size = SizeOf(settings.type);
  const uint64_t patterns = uint64_t{1} << (8 * size);
  constexpr uint64_t kChunk = uint64_t{1} << 18;
  std::vector<uint8_t> inputs;
  uint64_t tail = 0;
  for (uint64_t bits = 0; bits < patterns;) {
    inputs.clear();
    tail = tail % 15 + 1;
    for (uint64_t k = 0; k < kChunk + tail && bits < patterns; ++k, bits += settings.stride)
      AppendBits(inputs, bits, size);
    KILN_RETURN_IF_ERROR(sweep.Run(inputs));
  }
  return absl::OkStatus();
}

bool ParseArguments(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view flag = argv[i];
    if (flag == "--check") {
      settings.check = true;
      continue;
    }
    if (i + 1 >= argc) return false;
    const absl::string_view value = argv[++i];
    if (flag == "--function") {
      settings.only.emplace_back(value);
    } else if (flag == "--stride") {
      if (!absl::SimpleAtoi(value, &settings.stride) || settings.stride == 0) return false;
    } else if (flag == "--type") {
      const std::optional<DType> type = ParseDType(value);
      if (!type || !IsFloat(*type)) return false;
      settings.type = *type;
    } else {
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  Settings settings;
  if (!ParseArguments(argc, argv, settings)) {
    std::fprintf(stderr,
                 "usage: kiln-ulp [--type f32|f64|f16|bf16] [--function NAME]... [--stride N] "
                 "[--check]\n");
    return 2;
  }
  std::printf("| function | type | inputs | largest error, ULP | at | bound | same bits on |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  bool good = true;
  for (const Function& function : Functions()) {
    const std::string name = Info(function.op).name;
    if (!settings.only.empty() &&
        std::find(settings.only.begin(), settings.only.end(), name) == settings.only.end())
      continue;
    Sweep sweep(function, settings.type);
    const absl::Status status = RunAll(sweep, settings);
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), std::string(status.message()).c_str());
      return 1;
    }
    const Result& r = sweep.result();
    const bool all = settings.stride == 1 && settings.type != DType::kF64;
    // Below half a unit the sweep does not look; above, two digits are rounded up.
    const double worst = std::max(0.5, std::ceil(r.worst * 100 - 1e-6) / 100);
    std::printf("| %s | %s | %s | %.2f | %a | %g | %s |\n", name.c_str(),
                Name(settings.type).data(), all ? "all" : std::to_string(r.count).c_str(), worst,
                r.at, sweep.bound(), r.differing == 0 ? r.executors.c_str() : "BITS DIFFER");
    std::fflush(stdout);
    good = good && r.differing == 0 && r.worst <= sweep.bound() * (1 + 1e-6);
  }
  return good || !settings.check ? 0 : 1;
}

}  // namespace
}  // namespace kiln::ulp

int main(int argc, char** argv) { return kiln::ulp::Main(argc, argv); }
