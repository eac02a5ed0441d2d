// SPDX-License-Identifier: Apache-2.0
#include "tests/base/fault_injecting_file_system.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {

class FaultInjectingFileSystem::File : public WritableFile {
 public:
  File(FaultInjectingFileSystem& owner, std::string path, std::shared_ptr<Written> written,
       std::unique_ptr<WritableFile> inner)
      : owner_(owner),
        path_(std::move(path)),
        written_(std::move(written)),
        inner_(std::move(inner)) {}

  absl::Status Append(absl::string_view bytes) override {
    const absl::Status status = owner_.Enter("Append", path_);
    if (!status.ok() && !bytes.empty()) {
      const std::lock_guard<std::mutex> lock(owner_.mutex_);
      bytes = bytes.substr(0, std::min<size_t>(owner_.torn_bytes_, bytes.size() - 1));
    }
    KILN_RETURN_IF_ERROR(inner_->Append(bytes));
    const std::lock_guard<std::mutex> lock(owner_.mutex_);
    written_->bytes += static_cast<int64_t>(bytes.size());
    return status;
  }

  absl::Status Sync() override {
    KILN_RETURN_IF_ERROR(owner_.Enter("Sync", path_));
    KILN_RETURN_IF_ERROR(inner_->Sync());
    const std::lock_guard<std::mutex> lock(owner_.mutex_);
    written_->synced = written_->bytes;
    return absl::OkStatus();
  }

  absl::Status Close() override {
    KILN_RETURN_IF_ERROR(owner_.Enter("Close", path_));
    return inner_->Close();
  }

 private:
  FaultInjectingFileSystem& owner_;
  std::string path_;  // when it was made
  std::shared_ptr<Written> written_;
  std::unique_ptr<WritableFile> inner_;
};

class FaultInjectingFileSystem::Reader : public ReadableFile {
 public:
  Reader(FaultInjectingFileSystem& owner, std::string path, std::unique_ptr<ReadableFile> inner)
      : owner_(owner), path_(std::move(path)), inner_(std::move(inner)) {}

  const FileInfo& info() const override { return inner_->info(); }
  absl::StatusOr<std::string> Read(int64_t offset, int64_t bytes) override {
    KILN_ASSIGN_OR_RETURN(const bool cut, owner_.EnterRead("Read", path_));
    return inner_->Read(offset, cut ? bytes / 2 : bytes);
  }

 private:
  FaultInjectingFileSystem& owner_;
  std::string path_;
  std::unique_ptr<ReadableFile> inner_;
};

void FaultInjectingFileSystem::SetHook(Hook hook) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hook_ = std::move(hook);
}

void FaultInjectingFileSystem::FailCall(int index, int error) {
  SetHook([=](const Call& call) { return call.index == index ? error : 0; });
}

void FaultInjectingFileSystem::FailAll(absl::string_view op, int error) {
  SetHook([op = std::string(op), error](const Call& call) { return call.op == op ? error : 0; });
}

void FaultInjectingFileSystem::CrashAtCall(int index) {
  SetHook([=](const Call& call) { return call.index >= index ? EIO : 0; });
}

void FaultInjectingFileSystem::TearAppends(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  torn_bytes_ = bytes;
}

int FaultInjectingFileSystem::calls() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(log_.size());
}

std::vector<FaultInjectingFileSystem::Call> FaultInjectingFileSystem::log() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return log_;
}

absl::StatusOr<bool> FaultInjectingFileSystem::EnterRead(absl::string_view op,
                                                         absl::string_view path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  log_.push_back({static_cast<int>(log_.size()), std::string(op), std::string(path)});
  const int error = hook_ ? hook_(log_.back()) : 0;
  if (error > 0) return ErrnoStatus(error, path, op);
  return error == kShort;
}

absl::Status FaultInjectingFileSystem::Enter(absl::string_view op, absl::string_view path) {
  return EnterRead(op, path).status();
}

void FaultInjectingFileSystem::LoseUnsyncedData() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [path, written] : files_) {
    if (written->synced == written->bytes) continue;
    const absl::StatusOr<FileInfo> info = inner_.Stat(path);
    absl::StatusOr<std::string> content =
        inner_.ReadFile(path, std::numeric_limits<int64_t>::max());
    KILN_CHECK(info.ok() && content.ok() && inner_.Unlink(path).ok());
    auto file = inner_.CreateExclusive(path, info->mode);
    KILN_CHECK(file.ok());
    content->resize(static_cast<size_t>(written->synced));
    KILN_CHECK((*file)->Append(*content).ok() && (*file)->Close().ok());
    written->bytes = written->synced;
  }
}

absl::StatusOr<std::string> FaultInjectingFileSystem::ReadFile(absl::string_view path,
                                                               int64_t max_bytes) {
  KILN_RETURN_IF_ERROR(Enter("ReadFile", path));
  return inner_.ReadFile(path, max_bytes);
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultInjectingFileSystem::CreateExclusive(
    absl::string_view path, mode_t mode) {
  KILN_RETURN_IF_ERROR(Enter("CreateExclusive", path));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, inner_.CreateExclusive(path, mode));
  auto written = std::make_shared<Written>();
  const std::lock_guard<std::mutex> lock(mutex_);
  files_[std::string(path)] = written;
  return std::make_unique<File>(*this, std::string(path), std::move(written), std::move(file));
}

absl::Status FaultInjectingFileSystem::Rename(absl::string_view from, absl::string_view to) {
  KILN_RETURN_IF_ERROR(Enter("Rename", from));
  KILN_RETURN_IF_ERROR(inner_.Rename(from, to));
  const std::lock_guard<std::mutex> lock(mutex_);
  files_.erase(std::string(to));
  if (auto node = files_.extract(std::string(from))) {
    node.key() = std::string(to);
    files_.insert(std::move(node));
  }
  return absl::OkStatus();
}

absl::Status FaultInjectingFileSystem::Unlink(absl::string_view path) {
  KILN_RETURN_IF_ERROR(Enter("Unlink", path));
  KILN_RETURN_IF_ERROR(inner_.Unlink(path));
  const std::lock_guard<std::mutex> lock(mutex_);
  files_.erase(std::string(path));
  return absl::OkStatus();
}

absl::Status FaultInjectingFileSystem::MakeDir(absl::string_view path, mode_t mode) {
  KILN_RETURN_IF_ERROR(Enter("MakeDir", path));
  return inner_.MakeDir(path, mode);
}

absl::StatusOr<std::vector<std::string>> FaultInjectingFileSystem::ListDir(absl::string_view path) {
  KILN_RETURN_IF_ERROR(Enter("ListDir", path));
  return inner_.ListDir(path);
}

absl::StatusOr<FileInfo> FaultInjectingFileSystem::Stat(absl::string_view path) {
  KILN_RETURN_IF_ERROR(Enter("Stat", path));
  return inner_.Stat(path);
}

absl::Status FaultInjectingFileSystem::SyncDir(absl::string_view path) {
  KILN_RETURN_IF_ERROR(Enter("SyncDir", path));
  return inner_.SyncDir(path);
}

absl::Status FaultInjectingFileSystem::Touch(absl::string_view path) {
  KILN_RETURN_IF_ERROR(Enter("Touch", path));
  return inner_.Touch(path);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> FaultInjectingFileSystem::OpenRead(
    absl::string_view path) {
  KILN_RETURN_IF_ERROR(Enter("OpenRead", path));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, inner_.OpenRead(path));
  return std::make_unique<Reader>(*this, std::string(path), std::move(file));
}

absl::StatusOr<std::unique_ptr<FileLock>> FaultInjectingFileSystem::TryLock(absl::string_view path,
                                                                            int64_t offset) {
  KILN_RETURN_IF_ERROR(Enter("TryLock", path));
  return inner_.TryLock(path, offset);
}

absl::StatusOr<DiskInfo> FaultInjectingFileSystem::Disk(absl::string_view path) {
  KILN_RETURN_IF_ERROR(Enter("Disk", path));
  return inner_.Disk(path);
}

}  // namespace kiln
