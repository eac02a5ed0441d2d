// SPDX-License-Identifier: Apache-2.0
// What a model file has for people, and no run reads.
#ifndef KILN_BASE_MODEL_NOTES_H_
#define KILN_BASE_MODEL_NOTES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct ModelNotes {
  std::string user_info;
  std::vector<std::pair<std::string, std::string>> metadata;
  int64_t model_version = 0;  // 0: none is said
};

}  // namespace kiln

#endif  // KILN_BASE_MODEL_NOTES_H_
