// SPDX-License-Identifier: Apache-2.0
// A file mapped for reading, and the external data files of a model, which a hostile model must not
// choose freely.
//
// Tensors view the mapping and share in it, so a MappedFile lives as long as the last of them.
// Should another program cut the file short while it is mapped, reading a missing page ends the
// process: this is the one documented fatal case.
#ifndef KILN_GRAPH_ONNX_MAPPED_FILE_H_
#define KILN_GRAPH_ONNX_MAPPED_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace kiln::onnx {

// What becomes of links (symbolic and hard ones) on the way to external data.
enum class Links : uint8_t { kRefuse, kFollow };

class MappedFile {
 public:
  // A regular file of at most `max_bytes`; links are followed, as the user has named it. kNotFound,
  // kPermissionDenied; kFailedPrecondition if it is no regular file, kResourceExhausted if it is
  // too long.
  static absl::StatusOr<std::shared_ptr<MappedFile>> Open(const std::string& path,
                                                          int64_t max_bytes);

  // The file `location` beneath `folder`, for a name that an untrusted model has given: relative,
  // without "..", a regular file. kRefuse: reached by no link of any kind (openat2 where the system
  // has it, else one component at a time), with one name. kFollow: wherever links of the folder
  // lead, those of /proc excepted. kPermissionDenied where it breaks these rules,
  // kFailedPrecondition where it is no regular file; nothing else is opened, so that no device or
  // pipe is touched. `openat2` false: as on a system without it.
  static absl::StatusOr<std::shared_ptr<MappedFile>> OpenBeneath(const std::string& folder,
                                                                 const std::string& location,
                                                                 Links links = Links::kRefuse,
                                                                 bool openat2 = true);

  // The regular file behind a descriptor, as Open; `name` is for messages.
  static absl::StatusOr<std::shared_ptr<MappedFile>> OfDescriptor(int fd, const std::string& name,
                                                                  int64_t max_bytes);
  // Bytes that `owner` keeps as they are: a file like no other.
  static std::shared_ptr<MappedFile> OfMemory(absl::string_view bytes,
                                              std::shared_ptr<const void> owner);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }
  // As the file was when it was opened.
  const FileIdentity& identity() const { return identity_; }

 private:
  MappedFile(void* data, const FileIdentity& identity)
      : data_(data), size_(static_cast<size_t>(identity.size)), identity_(identity) {}
  static absl::StatusOr<std::shared_ptr<MappedFile>> Map(int fd, const std::string& name,
                                                         int64_t max_bytes, bool one_name);

  void* data_;
  size_t size_;
  FileIdentity identity_;
  std::shared_ptr<const void> owner_;  // null: the mapping is this object's
};

// A model in memory, and what of its external data is mapped already: it is read again, for other
// inputs, without a look at the disk.
struct ModelMemory {
  std::shared_ptr<MappedFile> file;
  std::string folder;  // of external data; empty: there may be none
  std::map<std::string, std::shared_ptr<MappedFile>> external;  // by location
};

// The external data of one model; maps each file once. Not thread-safe.
class ExternalFiles {
 public:
  // `folder` is that of the model. Empty: there is no folder (the model came as bytes), and what is
  // not in `mapped`, which need not be opened, is refused.
  explicit ExternalFiles(std::string folder, Links links = Links::kRefuse,
                         std::map<std::string, std::shared_ptr<MappedFile>> mapped = {})
      : folder_(std::move(folder)), links_(links), files_(std::move(mapped)) {}

  struct Bytes {
    absl::string_view bytes;
    std::shared_ptr<MappedFile> owner;
  };
  // `length` bytes at `offset` of a file; length -1 means up to its end. kInvalidArgument if the
  // file has fewer.
  absl::StatusOr<Bytes> Read(const std::string& location, int64_t offset, int64_t length);
  // All that are mapped so far, by location.
  const std::map<std::string, std::shared_ptr<MappedFile>>& files() const { return files_; }

 private:
  std::string folder_;
  Links links_;
  std::map<std::string, std::shared_ptr<MappedFile>> files_;
};

}  // namespace kiln::onnx

#endif  // KILN_GRAPH_ONNX_MAPPED_FILE_H_
