// SPDX-License-Identifier: Apache-2.0
// A FileSystem that fails on demand, for testing what survives. It wraps another one, to which all
// calls go that are not made to fail, and counts calls from 0; those on an open file count too.
//
//   FaultInjectingFileSystem faults(RealFileSystem());
//   faults.FailCall(3, ENOSPC);           // the fourth call fails, once
//   faults.CrashAtCall(5);                // from the sixth on, calls fail with EIO and do nothing
//   store.Put(...);
//   faults.LoseUnsyncedData();            // what the disk has after the power came back
//   // ... open a new store on RealFileSystem() and see what it finds
//
// A sweep over all failures of an operation: run it once to count its calls, then once for each k.
#ifndef KILN_TESTS_BASE_FAULT_INJECTING_FILE_SYSTEM_H_
#define KILN_TESTS_BASE_FAULT_INJECTING_FILE_SYSTEM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace kiln {

// Thread-safe.
class FaultInjectingFileSystem : public FileSystem {
 public:
  struct Call {
    int index = 0;
    std::string op;    // name of the method: "Rename", "Append", "Sync", ...
    std::string path;  // of the file; the first one of Rename
  };
  // What a Hook gives for a "Read" that is to return half of its bytes, as from a file cut short.
  static constexpr int kShort = -1;
  // The errno a call fails with, or 0 to let it pass.
  using Hook = std::function<int(const Call&)>;

  explicit FaultInjectingFileSystem(FileSystem& inner) : inner_(inner) {}

  // Each of these replaces the one before; SetHook(nullptr) lets all calls pass again.
  void SetHook(Hook hook);
  void FailCall(int index, int error);
  void FailAll(absl::string_view op, int error);
  void CrashAtCall(int index);

  // A failing Append first writes this many bytes of its data, or all but the last when it has
  // fewer.
  void TearAppends(int64_t bytes);

  int calls() const;
  std::vector<Call> log() const;

  // Cuts each file made through this object, under the name it has now, to the bytes that were
  // synced.
  void LoseUnsyncedData();

  absl::StatusOr<std::string> ReadFile(absl::string_view path, int64_t max_bytes) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateExclusive(absl::string_view path,
                                                                mode_t mode) override;
  absl::Status Rename(absl::string_view from, absl::string_view to) override;
  absl::Status Unlink(absl::string_view path) override;
  absl::Status MakeDir(absl::string_view path, mode_t mode) override;
  absl::StatusOr<std::vector<std::string>> ListDir(absl::string_view path) override;
  absl::StatusOr<FileInfo> Stat(absl::string_view path) override;
  absl::Status SyncDir(absl::string_view path) override;
  absl::Status Touch(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenRead(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> TryLock(absl::string_view path,
                                                    int64_t offset) override;
  absl::StatusOr<DiskInfo> Disk(absl::string_view path) override;

 private:
  class File;
  class Reader;

  // What is known of a file made here. Renaming keeps the object and changes its name in `files_`.
  struct Written {
    int64_t bytes = 0;
    int64_t synced = 0;
  };

  // Counts a call and says how it ends; the second also says whether it is to be cut short.
  absl::Status Enter(absl::string_view op, absl::string_view path);
  absl::StatusOr<bool> EnterRead(absl::string_view op, absl::string_view path);

  FileSystem& inner_;
  mutable std::mutex mutex_;
  Hook hook_;  // these are guarded by mutex_
  int64_t torn_bytes_ = 0;
  std::vector<Call> log_;
  std::map<std::string, std::shared_ptr<Written>> files_;  // by present path
};

}  // namespace kiln

#endif  // KILN_TESTS_BASE_FAULT_INJECTING_FILE_SYSTEM_H_
