// SPDX-License-Identifier: Apache-2.0
// The addresses that the launches of a plan take. A plan knows all but where its arena, inputs and
// outputs lie: each BoundPlan has a copy of the words, and fills in those.
//
//   words    0: &2   1: 7 (a constant's address)   2: a.host   3: y.host
//   links    {0, to 2}: the address of another word of the same copy
//   patches  base 1 (the first input): {2, 0};  base 2 (the first output): {3, 64}
#ifndef KILN_EXEC_ARGUMENT_BLOCK_H_
#define KILN_EXEC_ARGUMENT_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln {

// The number of a word of the block.
using Word = size_t;

struct ArgumentBlock {
  // A word that holds the address of byte `offset` of a base.
  struct Patch {
    Word word;
    int64_t offset;
  };
  // A word that holds the address of another word.
  struct Link {
    Word word, to;
  };
  std::vector<uint64_t> words;
  std::vector<Link> links;
  std::vector<std::vector<Patch>> patches;  // per base: the arena, each input, each output,
                                            // and the device's arena

  // `count` more words, all 0.
  Word Add(size_t count) {
    const Word first = words.size();
    words.resize(first + count);
    return first;
  }
  void Set(Word word, const void* address) { words[word] = reinterpret_cast<uintptr_t>(address); }
  // Bytes that it takes.
  size_t bytes() const {
    size_t bytes = words.size() * sizeof words[0] + links.size() * sizeof links[0];
    for (const std::vector<Patch>& of_base : patches) bytes += of_base.size() * sizeof(Patch);
    return bytes;
  }
};

}  // namespace kiln

#endif  // KILN_EXEC_ARGUMENT_BLOCK_H_
