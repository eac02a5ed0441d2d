// SPDX-License-Identifier: Apache-2.0
// What is published of an operator's operands (operators.txt), for models that are nearly right.
#ifndef KILN_TESTS_FUZZ_OPERATORS_H_
#define KILN_TESTS_FUZZ_OPERATORS_H_

#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct Operator {
  std::string name;  // as the importer's table has it: "com.microsoft.Gelu"
  int least = 0;
  int most = 3;
  std::string kinds = "fff";                             // one letter an input
  std::vector<std::pair<std::string, char>> attributes;  // name and kind
};

// Every operator of the importer's table, once. One of which operators.txt has nothing gets
// attributes of names that others have.
const std::vector<Operator>& AllOperators();

// All attributes of all operators.
const std::vector<std::pair<std::string, char>>& AllAttributes();

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_OPERATORS_H_
