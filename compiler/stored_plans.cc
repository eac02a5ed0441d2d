// SPDX-License-Identifier: Apache-2.0
#include "compiler/stored_plans.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/log.h"
#include "base/sha256.h"

namespace kiln {
namespace {

std::string BytesOf(std::span<const int64_t> numbers) {
  std::string bytes;
  for (const int64_t number : numbers) AppendU64(bytes, static_cast<uint64_t>(number));
  return bytes;
}

std::vector<int64_t> NumbersOf(absl::string_view bytes) {
  std::vector<int64_t> numbers;
  for (size_t at = 0; at + sizeof(int64_t) <= bytes.size(); at += sizeof(int64_t))
    numbers.push_back(static_cast<int64_t>(LoadU64(bytes.substr(at))));
  return numbers;
}

Preimage PreimageOf(std::span<const Interval> intervals, int64_t alignment) {
  std::vector<int64_t> numbers;
  for (const Interval& interval : intervals)
    numbers.insert(numbers.end(), {interval.lower, interval.upper, interval.size});
  return Preimage()
      .Add("schema", "1")
      .Add("artefact", "memory plan")
      .Add("alignment", absl::StrCat(alignment))
      .Add("intervals", ToHex(Sha256(BytesOf(numbers))));
}

}  // namespace

std::optional<std::vector<int64_t>> StoredPlans::Find(std::span<const Interval> intervals,
                                                      int64_t alignment) {
  const std::optional<MappedBlob> blob =
      store_.FindBlob(PreimageOf(intervals, alignment), [](const FileIdentity&) { return false; });
  if (!blob || blob->bytes.size() != intervals.size() * sizeof(int64_t)) return std::nullopt;
  return NumbersOf(blob->bytes);
}

void StoredPlans::Keep(std::span<const Interval> intervals, int64_t alignment,
                       const std::vector<int64_t>& offsets) {
  if (store_.read_only()) return;
  publishing_.Add([this, preimage = PreimageOf(intervals, alignment), bytes = BytesOf(offsets)] {
    const absl::Status status = store_.PublishBlob(preimage, bytes, {{"kind", "memory plan"}});
    if (!status.ok()) LogInfo("cache: a memory plan is not kept: ", status.message());
  });
}

}  // namespace kiln
