// SPDX-License-Identifier: Apache-2.0
#include "tools/machine_probe.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/status_macros.h"
#include "base/thread.h"
#include "graph/graph.h"
#include "graph/tensors.h"
#include "kiln/compile.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

// Of one array: so many last caches, within bounds that take neither too long nor all memory.
constexpr size_t kCaches = 4;
constexpr size_t kLeastArray = size_t{64} << 20, kMostArray = size_t{512} << 20;
constexpr int kPasses = 7;
// A pass that is short beside the start of a thread says nothing.
constexpr size_t kLeastPart = size_t{1} << 20;
constexpr int64_t kMatrix = 768;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

size_t ArrayBytes() {
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t wish = kCaches * static_cast<size_t>(std::max(cache, 0L));
  return std::clamp(wish, kLeastArray, kMostArray);
}

}  // namespace

absl::StatusOr<double> ProbeBandwidth(int threads) {
  const size_t bytes = ArrayBytes();
  const std::unique_ptr<char[]> from(new (std::nothrow) char[bytes]);
  const std::unique_ptr<char[]> to(new (std::nothrow) char[bytes]);
  if (from == nullptr || to == nullptr) {
    return absl::ResourceExhaustedError(
        "the bandwidth of memory cannot be measured: there is no room for two arrays");
  }
  const size_t parts =
      std::clamp(static_cast<size_t>(std::max(threads, 1)), size_t{1}, bytes / kLeastPart);
  const size_t part = bytes / parts;
  ForEachInParallel(
      parts,
      [&](size_t k) {
        std::memset(from.get() + k * part, 1, part);
        std::memset(to.get() + k * part, 2, part);
      },
      threads);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const Clock::time_point start = Clock::now();
    ForEachInParallel(
        parts, [&](size_t k) { std::memcpy(to.get() + k * part, from.get() + k * part, part); },
        threads);
    best = std::max(best, 2 * static_cast<double>(parts * part) / SecondsSince(start));
  }
  return best;
}

absl::StatusOr<double> ProbeMatmul(const CompileOptions& asked) {
  GraphBuilder builder("probe");
  const ValueId a = builder.Input("a", DType::kF32, {kMatrix, kMatrix});
  const ValueId b = builder.Input("b", DType::kF32, {kMatrix, kMatrix});
  builder.Output(builder.Op("matmul", {a, b}), "y");
  CompileOptions options;
  options.threads = asked.threads;
  options.runtime = asked.runtime;
  options.cache.enabled = false;
  KILN_ASSIGN_OR_RETURN(Model model, Compile(std::move(builder), options));
  Context context = model.NewContext();
  const Tensor matrix = FilledTensor(DType::kF32, {kMatrix, kMatrix}, 0.5);
  KILN_RETURN_IF_ERROR(context.Bind("a", matrix));
  KILN_RETURN_IF_ERROR(context.Bind("b", matrix));
  KILN_RETURN_IF_ERROR(context.Run());
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const Clock::time_point start = Clock::now();
    KILN_RETURN_IF_ERROR(context.Run());
    const auto n = static_cast<double>(kMatrix);
    best = std::max(best, 2 * n * n * n / SecondsSince(start));
  }
  return best;
}

}  // namespace kiln
