// SPDX-License-Identifier: Apache-2.0
#include "tools/smallest_part.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace kiln {
namespace {

using Items = std::vector<size_t>;

class Search {
 public:
  Search(size_t count, const std::function<bool(const Items&)>& fails, int most_tries)
      : fails_(fails), most_tries_(most_tries), items_(count) {
    std::iota(items_.begin(), items_.end(), size_t{0});
  }

  SmallestPart Run() {
    size_t pieces = 2;
    while (items_.size() > 1 && !spent_) {
      pieces = std::min(pieces, items_.size());
      if (std::optional<Items> piece = FailingPiece(pieces, /*without=*/false); piece) {
        items_ = *std::move(piece);
        pieces = 2;
      } else if (std::optional<Items> rest = FailingPiece(pieces, /*without=*/true); rest) {
        items_ = *std::move(rest);
        pieces = std::max<size_t>(pieces - 1, 2);
      } else if (pieces == items_.size()) {
        break;
      } else {
        pieces *= 2;
      }
    }
    return {items_, tries_, !spent_};
  }

 private:
  // Of the items cut into so many pieces: the first piece that fails, or the first rest without a
  // piece.
  std::optional<Items> FailingPiece(size_t pieces, bool without) {
    for (size_t k = 0; k < pieces; ++k) {
      const auto begin = items_.begin() + static_cast<int64_t>(k * items_.size() / pieces);
      const auto end = items_.begin() + static_cast<int64_t>((k + 1) * items_.size() / pieces);
      Items tried(begin, end);
      if (without) {
        tried.assign(items_.begin(), begin);
        tried.insert(tried.end(), end, items_.end());
      }
      if (Fails(tried)) return tried;
    }
    return std::nullopt;
  }

  bool Fails(const Items& items) {
    const auto [at, fresh] = known_.emplace(items, false);
    if (!fresh) return at->second;
    if (tries_ == most_tries_) {
      spent_ = true;
      return false;
    }
    ++tries_;
    return at->second = fails_(items);
  }

  const std::function<bool(const Items&)>& fails_;
  const int most_tries_;
  Items items_;
  std::map<Items, bool> known_;
  int tries_ = 0;
  bool spent_ = false;
};

}  // namespace

SmallestPart FindSmallestPart(size_t count,
                              const std::function<bool(const std::vector<size_t>&)>& fails,
                              int most_tries) {
  return Search(count, fails, most_tries).Run();
}

}  // namespace kiln
