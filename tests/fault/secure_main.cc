// SPDX-License-Identifier: Apache-2.0
// Says what a set-uid program would do about caches: run by set_uid_test as one.
#include <sys/auxv.h>

#include <cstdio>
#include <string>

#include "base/file_system.h"
#include "persistent_cache/directory.h"
#include "persistent_cache/settings.h"

int main() {
  const auto directory = kiln::DefaultCacheDirectory();
  const kiln::StoreOptions options = kiln::SettingsFromEnvironment(kiln::RealFileSystem());
  std::printf(
      "secure %d\ndirectory %s\npacks %zu\nshared %s\n", getauxval(AT_SECURE) != 0,
      directory.ok() ? directory->c_str() : std::string(directory.status().message()).c_str(),
      options.packs.size(), options.shared_directory.c_str());
  return directory.ok() ? 0 : 1;
}
