// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/file_system.h"
#include "base/real_path.h"
#include "base/status_macros.h"
#include "kiln/package.h"

namespace kiln {
namespace {

FileInfo InfoOfSize(int64_t size) {
  FileInfo info;
  info.size = size;
  info.is_regular = true;
  return info;
}

// Bytes in memory as a file.
class MemoryFile : public ReadableFile {
 public:
  MemoryFile(absl::string_view bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes),
        owner_(std::move(owner)),
        info_(InfoOfSize(static_cast<int64_t>(bytes.size()))) {}
  const FileInfo& info() const override { return info_; }
  absl::StatusOr<std::string> Read(int64_t offset, int64_t bytes) override {
    if (offset < 0 || bytes < 0 || offset > info_.size)
      return absl::InvalidArgumentError("reads beyond its bytes");
    return std::string(bytes_.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes)));
  }
  absl::StatusOr<Mapping> Map() override { return Mapping{bytes_, owner_}; }

 private:
  const absl::string_view bytes_;
  const std::shared_ptr<const void> owner_;
  const FileInfo info_;
};

// What a callback gives.
class CallbackFile : public ReadableFile {
 public:
  CallbackFile(int64_t size, PackageSource::ReadFn read)
      : info_(InfoOfSize(size)), read_(std::move(read)) {}
  const FileInfo& info() const override { return info_; }
  absl::StatusOr<std::string> Read(int64_t offset, int64_t bytes) override {
    if (offset < 0 || bytes < 0 || offset > info_.size)
      return absl::InvalidArgumentError("reads beyond its bytes");
    const int64_t wanted = std::min(bytes, info_.size - offset);
    std::string content(static_cast<size_t>(wanted), '\0');
    KILN_RETURN_IF_ERROR(CatchExceptions("the package's reader", [&] {
      return wanted == 0 ? absl::OkStatus() : read_(offset, content.data(), wanted);
    }));
    return content;
  }
  absl::StatusOr<Mapping> Map() override {
    return absl::UnimplementedError("bytes of a callback cannot be mapped");
  }

 private:
  const FileInfo info_;
  const PackageSource::ReadFn read_;
};

}  // namespace

PackageSource PackageSource::File(absl::string_view path) {
  std::string name(path);
  return PackageSource(name, [name] { return RealFileSystem().OpenRead(RealPath(name)); });
}

PackageSource PackageSource::Descriptor(int descriptor) {
  std::string name = absl::StrCat("descriptor ", descriptor);
  return PackageSource(name, [name, descriptor] { return ReadDescriptor(descriptor, name); });
}

PackageSource PackageSource::Memory(const void* data, size_t size,
                                    std::shared_ptr<const void> owner, std::string name) {
  const absl::string_view bytes(static_cast<const char*>(data), size);
  return PackageSource(
      std::move(name),
      [bytes, owner = std::move(owner)]() -> absl::StatusOr<std::unique_ptr<ReadableFile>> {
        return std::make_unique<MemoryFile>(bytes, owner);
      });
}

PackageSource PackageSource::Reader(int64_t size, ReadFn read, std::string name) {
  return PackageSource(
      std::move(name),
      [size, read = std::move(read)]() -> absl::StatusOr<std::unique_ptr<ReadableFile>> {
        if (size < 0 || read == nullptr)
          return absl::InvalidArgumentError("a package's reader: no function, or a size below 0");
        return std::make_unique<CallbackFile>(size, read);
      });
}

absl::StatusOr<std::unique_ptr<ReadableFile>> PackageSource::Open() const { return open_(); }

}  // namespace kiln
