// SPDX-License-Identifier: Apache-2.0
// LoadPackage: models that `kiln compile -o` has made, from wherever their bytes are.
//
//   kiln::PackageOptions options;
//   options.signers = {{key, "acme-build"}};     // nobody else's code and weights
//   absl::StatusOr<kiln::Model> model =
//       kiln::LoadPackage(kiln::PackageSource::File("resnet50.kiln"), {.threads = 4}, options);
//
// A package needs neither compiler nor cache. Constants are mapped, so that processes share them,
// and checked before the first run that uses them; everything else is read and checked at once, and
// code runs from sealed memory. Replace a package by rename: who writes into a file that is mapped
// changes constants of those who use it, and who cuts it short ends them (SIGBUS). Where that
// cannot be ruled out, as on a network file system, set `read`.
//
// Kiln has no encryption of its own. Give a reader that decrypts: the package is then plain in this
// process's memory and nowhere else.
//
//   auto source = kiln::PackageSource::Reader(
//       size, [&](int64_t offset, void* into, int64_t bytes) -> absl::Status {
//         return Decrypt(file, offset, into, bytes);  // AES-CTR, say: any range by itself
//       });
//
// All functions are thread-safe.
#ifndef KILN_PACKAGE_H_
#define KILN_PACKAGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kiln/cache.h"
#include "kiln/model.h"
#include "kiln/status.h"

namespace kiln {

class ReadableFile;  // base/file_system.h

struct PackageOptions {
  PackageValidation validate = PackageValidation::kTrust;
  // Demands a signature of one of these (name by key): kPermissionDenied for a package without.
  // Every byte is then under it, constants by their SHA-256. Needs OpenSSL's libcrypto.so.3, which
  // is loaded then and not else. Nothing: no signature is looked at.
  std::optional<std::map<PublicKey, std::string>> signers;
  // Constants are read into memory instead of mapped.
  bool read = false;
};

// Where a package is. Holds an open file or shares the bytes; copies are as good as the first.
class KILN_API PackageSource {
 public:
  // A regular file. Opened by LoadPackage.
  static PackageSource File(absl::string_view path);
  // The regular file behind a descriptor that can be read, at any place: the descriptor is the
  // caller's, and not needed when LoadPackage has returned.
  static PackageSource Descriptor(int descriptor);
  // Bytes that `owner` keeps as they are, for as long as a model of them lives; null: the caller
  // does. Constants are used where they lie if `data` is 64-byte aligned, else copied.
  static PackageSource Memory(const void* data, size_t size, std::shared_ptr<const void> owner,
                              std::string name = "package");
  // Whatever `read` gives: the `bytes` bytes from `offset` on, all of them or an error, which
  // LoadPackage answers with. Called while LoadPackage runs, on its thread; what it throws is
  // kInternal.
  using ReadFn = std::function<absl::Status(int64_t offset, void* into, int64_t bytes)>;
  static PackageSource Reader(int64_t size, ReadFn read, std::string name = "package");

  // What messages call it.
  const std::string& name() const { return name_; }
  // Inside Kiln.
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open() const;

 private:
  using OpenFn = std::function<absl::StatusOr<std::unique_ptr<ReadableFile>>()>;
  PackageSource(std::string name, OpenFn open) : name_(std::move(name)), open_(std::move(open)) {}

  std::string name_;
  OpenFn open_;
};

// kDataLoss: damaged, of another version, or no package; the message names the part.
// kPermissionDenied: see PackageOptions::signers. kNotFound and the like for the file.
KILN_API absl::StatusOr<Model> LoadPackage(const PackageSource& source, const RunOptions& options,
                                           const PackageOptions& package);

}  // namespace kiln

#endif  // KILN_PACKAGE_H_
