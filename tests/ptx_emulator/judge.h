// SPDX-License-Identifier: Apache-2.0
// What PTX instructions compute for one thread, written from the PTX ISA manual a second time and
// in another way than the emulator: integers in 128 bits, floats as exact integers that are rounded
// once.
#ifndef KILN_TESTS_PTX_EMULATOR_JUDGE_H_
#define KILN_TESTS_PTX_EMULATOR_JUDGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kiln::ptx {

struct JudgedOp {
  std::string name;                                // "mad.lo.s32"
  int result;                                      // bits of the result; 1: a predicate
  std::vector<int> sources;                        // and of the sources
  std::function<uint64_t(const uint64_t*)> value;  // of sources that are cut to their bits
};

const std::vector<JudgedOp>& JudgedOps();

}  // namespace kiln::ptx

#endif  // KILN_TESTS_PTX_EMULATOR_JUDGE_H_
