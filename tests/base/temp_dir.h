// SPDX-License-Identifier: Apache-2.0
// A new empty directory of mode 0700, removed with all that is in it when the object goes; and what
// lies in a file.
#ifndef KILN_TESTS_BASE_TEMP_DIR_H_
#define KILN_TESTS_BASE_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace kiln {

class TempDir {
 public:
  TempDir() : path_(std::filesystem::temp_directory_path() / "kiln_test_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) abort();
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// All bytes of a file; none if it cannot be read.
inline std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace kiln

#endif  // KILN_TESTS_BASE_TEMP_DIR_H_
