// SPDX-License-Identifier: Apache-2.0
#include "fusion/live_set.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace kiln {
namespace {

// What the peak may grow by from its start, as a divisor: less than placing rounds up.
constexpr int64_t kSlack = 64;  // speed

// Turns changes at places into what there is at places.
void Accumulate(std::vector<int64_t>& change) {
  int64_t live = 0;
  for (int64_t& bytes : change) bytes = live += bytes;
}

}  // namespace

LiveSet::LiveSet(const GraphAnalysis& analysis, std::vector<bool> asked, int places,
                 const PlaceOf& place_of)
    : touched_(analysis.nodes.size()) {
  std::unordered_map<int32_t, int> use_of;  // value -> into uses_
  for (const DataEdge& edge : analysis.edges) {
    if (asked[static_cast<size_t>(edge.value.v)]) continue;
    const auto [it, added] = use_of.try_emplace(edge.value.v, static_cast<int>(uses_.size()));
    if (added) {
      uses_.push_back({edge.producer, edge.bytes, {}});
      touched_[static_cast<size_t>(edge.producer.v)].push_back(it->second);
    }
    uses_[static_cast<size_t>(it->second)].readers.push_back(edge.consumer);
    touched_[static_cast<size_t>(edge.consumer.v)].push_back(it->second);
  }
  live_.assign(static_cast<size_t>(places) + 1, 0);
  for (const Use& use : uses_) Add(use, 0, places - 1, place_of, 1, live_);
  Accumulate(live_);
  live_.pop_back();
  if (places > 0) allowed_ = *std::max_element(live_.begin(), live_.end());
  allowed_ += allowed_ / kSlack;
}

// Adds `sign` times the bytes of `use` where it lives within [first, last], as changes.
void LiveSet::Add(const Use& use, int first, int last, const PlaceOf& place_of, int sign,
                  std::vector<int64_t>& change) const {
  const int made = place_of(use.producer);
  int read = made;
  for (const NodeId reader : use.readers) read = std::max(read, place_of(reader));
  if (read == made) return;
  const int from = std::max(made, first);
  const int to = std::min(read, last);
  if (from > to) return;
  change[static_cast<size_t>(from - first)] += sign * use.bytes;
  change[static_cast<size_t>(to - first) + 1] -= sign * use.bytes;
}

std::vector<int64_t> LiveSet::Moved(int first, int last, const std::vector<NodeId>& nodes,
                                    const PlaceOf& before, const PlaceOf& after) {
  std::vector<int> touched;
  for (const NodeId id : nodes) {
    const std::vector<int>& uses = touched_[static_cast<size_t>(id.v)];
    touched.insert(touched.end(), uses.begin(), uses.end());
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  std::vector<int64_t> bytes(static_cast<size_t>(last - first) + 2, 0);
  steps_ += last - first;
  for (const int use : touched) {
    steps_ += static_cast<int64_t>(uses_[static_cast<size_t>(use)].readers.size());
    Add(uses_[static_cast<size_t>(use)], first, last, before, -1, bytes);
    Add(uses_[static_cast<size_t>(use)], first, last, after, 1, bytes);
  }
  Accumulate(bytes);
  bytes.pop_back();
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] += live_[static_cast<size_t>(first) + i];
  return bytes;
}

bool LiveSet::RaisesPeak(int first, const std::vector<int64_t>& moved) const {
  const int64_t most = *std::max_element(moved.begin(), moved.end());
  const auto begin = live_.begin() + first;
  // Most merges are seen to be harmless where they happen.
  if (most <= *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(moved.size())))
    return false;
  return most > std::max(allowed_, *std::max_element(live_.begin(), live_.end()));
}

void LiveSet::Set(int first, const std::vector<int64_t>& moved) {
  std::copy(moved.begin(), moved.end(), live_.begin() + first);
}

}  // namespace kiln
