// SPDX-License-Identifier: Apache-2.0
// Contents of a range of bytes as tags: the plan verifier's memory (plan_verifier.h).
//
//   TagMap m;  m.Set(0, 64, {7, 0});  m.Set(16, 32, {8, 100});
//   m.At(20) is {8, 120}: byte 120 of what write 8 wrote. m.At(40) is {7, 40}
#ifndef KILN_EXEC_TAG_MAP_H_
#define KILN_EXEC_TAG_MAP_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace kiln {

class TagMap {
 public:
  struct Tag {
    int64_t id = 0;    // of a write; 0: nothing wrote these bytes
    int64_t byte = 0;  // of the write
    bool operator==(const Tag&) const = default;
  };

  // Byte `begin + i` holds byte `tag.byte + i` of write `tag.id`.
  void Set(int64_t begin, int64_t end, Tag tag) {
    if (begin >= end) return;
    Split(begin);
    Split(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_[begin] = {end, tag};
  }

  // From `at` on, up to `end`: how far the bytes are of one write, or of none.
  struct Piece {
    int64_t end = 0;
    Tag tag;
  };
  Piece PieceAt(int64_t at, int64_t end) const {
    const auto next = pieces_.upper_bound(at);
    if (next != pieces_.begin()) {
      const auto& [begin, piece] = *std::prev(next);
      if (at < piece.end)
        return {std::min(end, piece.end), {piece.tag.id, piece.tag.byte + at - begin}};
    }
    return {next == pieces_.end() ? end : std::min(end, next->first), {}};
  }
  Tag At(int64_t at) const { return PieceAt(at, at + 1).tag; }

 private:
  // A piece ends at `at` if bytes on both sides are of one.
  void Split(int64_t at) {
    const auto next = pieces_.lower_bound(at);
    if (next == pieces_.begin()) return;
    auto& [begin, piece] = *std::prev(next);
    if (at >= piece.end) return;
    pieces_.emplace_hint(next, at, Piece{piece.end, {piece.tag.id, piece.tag.byte + at - begin}});
    piece.end = at;
  }

  std::map<int64_t, Piece> pieces_;  // by begin; they do not overlap
};

}  // namespace kiln

#endif  // KILN_EXEC_TAG_MAP_H_
