// SPDX-License-Identifier: Apache-2.0
// What differs between two texts, line by line.
//
//   DiffLines("a\nb\n", "a\nc\n")   // "  a\n- b\n+ c\n"
#ifndef KILN_TOOLS_DIFF_LINES_H_
#define KILN_TOOLS_DIFF_LINES_H_

#include <cstddef>
#include <string>

namespace kiln {

// Lines of both texts: "- " only in a, "+ " only in b, "  " in both; by the longest common
// subsequence. Where more than 2000 lines lie between the first and the last that differ, those
// beyond are left out.
std::string DiffLines(const std::string& a, const std::string& b);

// A diff without the lines in both, but for so many on each side of a change; " ..." stands for the
// others.
std::string WithContext(const std::string& diff, size_t lines);

}  // namespace kiln

#endif  // KILN_TOOLS_DIFF_LINES_H_
