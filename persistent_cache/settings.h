// SPDX-License-Identifier: Apache-2.0
// What the environment says about a cache, beside its directory (directory.h):
//
//   KILN_CACHE_PACKS=a.kilnpack:b.kilnpack   packs, looked into first
//   KILN_CACHE_SHARED=/opt/kiln-cache        a directory that is read and never written
//   KILN_CACHE_MAX_SIZE=500M                 limit of the user's directory; 0: none
//   KILN_TRUSTED_SIGNERS=FILE                trust file (signature.h); otherwise
//                                            $XDG_CONFIG_HOME/kiln/trusted-signers
//   KILN_TRUST_UNSIGNED=1                    packs that nobody known has signed, too
//
// In a set-uid process the environment is not believed.
#ifndef KILN_PERSISTENT_CACHE_SETTINGS_H_
#define KILN_PERSISTENT_CACHE_SETTINGS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "persistent_cache/store.h"

namespace kiln {

// Options without a directory. What cannot be read is warned of and left at its default.
StoreOptions SettingsFromEnvironment(FileSystem& files);

// The path of the trust file; "" where neither variable nor HOME is set.
std::string TrustFilePath();

// "500M", "2G", "4096": bytes; K, M, G, T are powers of 1024. kInvalidArgument.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_SETTINGS_H_
