// SPDX-License-Identifier: Apache-2.0
#include "compiler/model_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "graph/onnx/limits.h"

namespace kiln {
namespace {

using onnx::MappedFile;

// What is remembered of one file.
struct Facts {
  Sha256Digest digest{};
  std::vector<std::string> external;  // locations
};

Preimage MemoOf(const FileIdentity& file) {
  return Preimage()
      .Add("schema", "1")
      .Add("artefact", "file memo")
      .Add("device", absl::StrCat(file.device))
      .Add("inode", absl::StrCat(file.inode));
}

std::map<std::string, std::string> Times(const FileIdentity& file) {
  return {{"size", absl::StrCat(file.size)},
          {"mtime", absl::StrCat(file.mtime_ns)},
          {"ctime", absl::StrCat(file.ctime_ns)}};
}

std::optional<Facts> Recall(Store& store, const FileIdentity& file) {
  const std::optional<Entry> entry = store.Lookup(MemoOf(file));
  if (!entry.has_value()) return std::nullopt;
  std::map<std::string, std::string> meta = MetaOf(*entry);
  for (const auto& [name, value] : Times(file)) {
    if (meta[name] != value) return std::nullopt;
  }
  const std::optional<Sha256Digest> digest = ParseHexDigest(meta["sha256"]);
  if (!digest.has_value()) return std::nullopt;
  Facts info{*digest, {}};
  for (size_t k = 0; meta.count(absl::StrCat("external", k)) != 0; ++k)
    info.external.push_back(meta[absl::StrCat("external", k)]);
  return info;
}

void Remember(Store& store, const FileIdentity& file, const Facts& info) {
  if (store.read_only()) return;
  std::map<std::string, std::string> meta = Times(file);
  meta["sha256"] = ToHex(info.digest);
  for (size_t k = 0; k < info.external.size(); ++k) {
    if (absl::StrContains(info.external[k], '\n')) return;  // cannot be said in a line
    meta[absl::StrCat("external", k)] = info.external[k];
  }
  const Preimage preimage = MemoOf(file);
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta", FormatMeta(meta), true);
  store.Publish(entry).IgnoreError();
}

absl::StatusOr<Facts> FactsOf(const MappedFile& file, const std::string& path, bool is_model) {
  Facts info;
  info.digest = Sha256(file.bytes());
  if (is_model && !absl::EndsWith(path, ".graph")) {
    KILN_ASSIGN_OR_RETURN(info.external, ExternalLocations(file.bytes()));
  }
  return info;
}

absl::StatusOr<Facts> Compute(Store& store, const MappedFile& file, const std::string& path,
                              bool is_model) {
  const int64_t begun = SystemNowNs();
  KILN_ASSIGN_OR_RETURN(Facts info, FactsOf(file, path, is_model));
  const absl::StatusOr<DiskInfo> disk = RealFileSystem().Disk(path);
  if (disk.ok() && !disk->network && Settled(file.identity(), begun))
    Remember(store, file.identity(), info);
  return info;
}

// Nothing if info must be computed, and that is not to be done now.
using Files = absl::StatusOr<std::optional<std::vector<ModelFile>>>;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<std::shared_ptr<MappedFile>> OpenExternal(const std::string& folder,
                                                         const std::string& location,
                                                         const OnnxImportOptions& options) {
  if (options.memory != nullptr) {
    const auto mapped = options.memory->external.find(location);
    if (mapped != options.memory->external.end()) return mapped->second;
    if (folder.empty())
      return absl::NotFoundError(absl::StrCat("external data \"", location, "\": no folder"));
  }
  return MappedFile::OpenBeneath(folder, location, options.external_links);
}

Files OpenFiles(const std::string& path, const OnnxImportOptions& options, Store& store,
                bool may_compute) {
  std::vector<ModelFile> files;
  std::shared_ptr<MappedFile> model;
  std::optional<Facts> info;
  std::string folder = FolderOf(path);
  const bool in_memory = options.memory != nullptr;
  if (in_memory) {
    model = options.memory->file;
    folder = options.memory->folder;
    KILN_ASSIGN_OR_RETURN(info, FactsOf(*model, path, /*is_model=*/true));
  } else {
    KILN_ASSIGN_OR_RETURN(model, MappedFile::Open(path, onnx::kMaxFileBytes));
    info = Recall(store, model->identity());
    if (!info.has_value() && !may_compute) return std::nullopt;
    if (!info.has_value()) {
      KILN_ASSIGN_OR_RETURN(info, Compute(store, *model, path, /*is_model=*/true));
    }
  }
  files.push_back({"", in_memory ? "" : path, std::move(model), info->digest});
  for (const std::string& location : info->external) {
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<MappedFile> data,
                          OpenExternal(folder, location, options));
    const std::string data_path = absl::StrCat(folder, "/", location);
    if (data->identity().size > options.max_total_bytes)
      return absl::ResourceExhaustedError(absl::StrCat(
          "\"", data_path, "\": ", data->identity().size, " bytes are too many for a digest"));
    std::optional<Facts> known = Recall(store, data->identity());
    if (!known.has_value() && !may_compute) return std::nullopt;
    if (!known.has_value()) {
      KILN_ASSIGN_OR_RETURN(known, Compute(store, *data, data_path, /*is_model=*/false));
    }
    files.push_back({location, data_path, std::move(data), known->digest});
  }
  return files;
}

}  // namespace

absl::StatusOr<std::vector<ModelFile>> OpenModelFiles(const std::string& path,
                                                      const OnnxImportOptions& options,
                                                      Store& store,
                                                      const std::function<void()>& beside) {
  KILN_ASSIGN_OR_RETURN(std::optional<std::vector<ModelFile>> known,
                        OpenFiles(path, options, store, /*may_compute=*/false));
  if (known.has_value()) return *std::move(known);
  Files computed = absl::ResourceExhaustedError("model file: no memory to read it");
  const auto compute = [&] { computed = OpenFiles(path, options, store, /*may_compute=*/true); };
  {
    const absl::StatusOr<Thread> computing = Thread::Start(compute);
    beside();
    if (!computing.ok()) compute();
  }
  KILN_RETURN_IF_ERROR(computed.status());
  return **std::move(computed);
}

bool Unchanged(const std::vector<ModelFile>& files) {
  return std::all_of(files.begin(), files.end(), [](const ModelFile& file) {
    if (file.path.empty()) return true;
    struct stat now;
    if (stat(file.path.c_str(), &now) != 0) return false;
    const auto ns = [](const timespec& t) { return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; };
    return FileIdentity{now.st_dev, now.st_ino, now.st_size, ns(now.st_mtim), ns(now.st_ctim)} ==
           file.file->identity();
  });
}

}  // namespace kiln
