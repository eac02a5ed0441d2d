// SPDX-License-Identifier: Apache-2.0
// kiln lock: what compilation makes of a model, as a text to review and to keep it to.
#include "tools/lock.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "compiler/kernel_service.h"
#include "nlohmann/json.hpp"
#include "tools/diff_lines.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/lock_text.h"

namespace kiln {
namespace {

constexpr int64_t kMaxLockBytes = int64_t{64} << 20;
constexpr size_t kContext = 3;  // lines around what differs

struct LockFlags {
  CommonOptions common;
  ModelFlags model;
  std::string file;  // empty: beside the model
  bool check = false, package = false;
};

// The text of a lock, and what it says.
struct LockFile {
  std::string text;
  LockText lock;
};

absl::StatusOr<LockFile> ReadLock(const std::string& path) {
  LockFile file;
  KILN_ASSIGN_OR_RETURN(file.text, RealFileSystem().ReadFile(path, kMaxLockBytes));
  absl::StatusOr<LockText> lock = LockText::Parse(file.text);
  if (!lock.ok()) return Annotate(lock.status(), absl::StrCat("lock \"", path, "\""));
  file.lock = *std::move(lock);
  return file;
}

int64_t Count(const LockText& lock, absl::string_view kind) {
  return std::count_if(lock.blocks.begin(), lock.blocks.end(),
                       [&](const std::string& block) { return absl::StartsWith(block, kind); });
}

int Check(const LockFlags& flags, const std::string& path, const LockText& made) {
  const absl::StatusOr<LockFile> locked = ReadLock(path);
  if (!locked.ok()) return Fail(locked.status(), UsageExit(locked.status()));
  const std::string now = made.ToString();
  const bool same = locked->text == now;
  const std::string diff = same ? "" : WithContext(DiffLines(locked->text, now), kContext);
  if (flags.common.json) {
    PrintJson(
        "lock", flags.common,
        {{"file", path}, {"variants", Count(made, "variant ")}, {"same", same}, {"diff", diff}});
  } else if (same) {
    std::cout << "\"" << path << "\" is what is compiled now\n";
  } else {
    std::cout << "- \"" << path << "\"\n+ what is compiled now\n" << diff;
  }
  return same ? kExitOk : kExitDiffers;
}

int Lock(const LockFlags& flags) {
  const absl::StatusOr<CompileOptions> options =
      ToCompileOptions(flags.common, TargetsNamed(flags.model));
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const KernelService service(*options);  // for the cache
  const absl::StatusOr<LockText> made =
      LockOf(flags.model, flags.common, flags.package, service.store());
  if (!made.ok()) return Fail(made.status(), ModelExit(made.status()));
  const std::string path = flags.file.empty() ? flags.model.model + ".lock" : flags.file;
  if (flags.check) return Check(flags, path, *made);
  const std::string text = made->ToString();
  if (path == "-") {
    std::cout << text;
    return kExitOk;
  }
  const absl::Status written = WriteFileDurably(path, text);
  if (!written.ok()) return Fail(written, kExitIo);
  const int64_t variants = Count(*made, "variant ");
  if (flags.common.json) {
    PrintJson("lock", flags.common,
              {{"file", path}, {"variants", variants}, {"same", true}, {"diff", ""}});
  } else {
    std::cout << "wrote \"" << path << "\", " << variants << " variants\n";
  }
  return kExitOk;
}

}  // namespace

void AddLockedFlag(Flags& command, std::string& file) {
  command
      .Option("--locked", file,
              "Refuse, with a diff, to compile what does not stand in this file of kiln lock")
      .File();
}

int CheckLocked(const std::string& file, const ModelFlags& flags, const CommonOptions& common,
                bool package, Store* store) {
  if (file.empty()) return kExitOk;
  if (absl::EndsWith(flags.model, ".kiln")) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
                    "--locked: \"", flags.model, "\" is a package, which is compiled already")),
                kExitUsage);
  }
  const absl::StatusOr<LockFile> locked = ReadLock(file);
  if (!locked.ok()) return Fail(locked.status(), UsageExit(locked.status()));
  const absl::StatusOr<LockText> made = LockOf(flags, common, package, store);
  if (!made.ok()) return Fail(made.status(), ModelExit(made.status()));
  const std::string diff = NotLocked(locked->lock, *made);
  if (diff.empty()) return kExitOk;
  const int exit =
      Fail(absl::FailedPreconditionError(absl::StrCat(
               "--locked \"", file, "\": what would be compiled differs (- locked, + now)")),
           kExitDiffers);
  std::cerr << diff;
  return exit;
}

void AddLock(Flags& command) {
  auto flags = std::make_shared<LockFlags>();
  command.Option("MODEL", flags->model.model, "ONNX file, or .graph text").File().Required();
  command
      .Option("-o,--output", flags->file,
              "File to write, or to compare with (default: MODEL.lock; -: the standard output)")
      .File();
  command.Switch("--check", flags->check, "Write nothing; differing from the file is exit 1");
  command.Switch("--package", flags->package,
                 "As kiln compile -o compiles: recurrent networks of known steps are no loops");
  AddModelFlags(command, flags->model);
  AddCommonFlags(command, flags->common);
  AddConstShapeFlag(command, flags->common);
  command.Runs([flags] { return Lock(*flags); });
}

}  // namespace kiln
