// SPDX-License-Identifier: Apache-2.0
// Constants of a package in the layouts that library operators compute with. The file has those of
// its builder's CPU. They are mapped, as its constants are: processes share them, and nobody packs
// them at start. A layout is looked for by all that there is to say of it; on a CPU, or with a
// oneDNN, that wants another one, the constant itself is packed.
//
//   weights.Name(elements, blob);                    // where the constants lie
//   weights.Add({blob, 0, bytes, layout}, view, range);
//   weights.Find(elements.data(), bytes, layout, packed_bytes);    // `view`
#ifndef KILN_EXEC_PACKAGE_PACKAGED_WEIGHTS_H_
#define KILN_EXEC_PACKAGE_PACKAGED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/mutex.h"
#include "base/tensor.h"
#include "exec/package/package_file.h"
#include "exec/packed_constants.h"

namespace kiln {

// Name and Add come before the first Find; Find, Keep and Kept are thread-safe.
class PackagedWeights : public PackedConstants {
 public:
  // What was packed, and into which layout.
  struct Key {
    int blob = 0;                   // index into Package.blobs
    int64_t offset = 0, bytes = 0;  // of its elements
    std::string layout;
    auto operator<=>(const Key&) const = default;
  };
  struct Packed {
    Key key;
    Tensor bytes;  // u8
  };

  explicit PackagedWeights(std::shared_ptr<PackageFile> file) : file_(std::move(file)) {}

  // The elements of a blob lie there, for as long as this object lives.
  void Name(const Tensor& elements, int blob);
  // `range` of the file has the bytes, and is checked before Find first answers with them.
  void Add(Key key, const Tensor& bytes, PackageRange range);
  // What was kept from here on, in the order of the keys: PackageWriter::AddPacked.
  void KeepAll() { keeps_ = true; }
  std::vector<Packed> Kept() const;

  std::shared_ptr<const void> Find(const void* constant, size_t bytes, const std::string& layout,
                                   size_t packed_bytes) override;
  absl::Status Check(const void* constant, size_t bytes) override;
  void Keep(const void* constant, size_t bytes, const std::string& layout,
            std::shared_ptr<const void> packed, size_t packed_bytes) override;

 private:
  struct Named {
    int64_t bytes;
    int blob;
  };
  struct Stored {
    Tensor bytes;
    PackageRange range;
  };
  // False: the constant is of no blob.
  bool KeyOf(const void* constant, size_t bytes, const std::string& layout, Key* key) const;

  const std::shared_ptr<PackageFile> file_;
  bool keeps_ = false;
  std::map<const char*, Named> named_;  // by where it begins
  std::map<Key, Stored> stored_;
  mutable Mutex mutex_;
  std::map<Key, Tensor> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln

#endif  // KILN_EXEC_PACKAGE_PACKAGED_WEIGHTS_H_
