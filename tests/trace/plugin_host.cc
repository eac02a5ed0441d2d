// SPDX-License-Identifier: Apache-2.0
// plugin_host PLUGIN: uses a plugin in a thread that has ended when it is closed, as hosts do, and
// exits 0. The plugin alone has Kiln's library: what the library leaves in threads of the host must
// not outlive it.
#include <dlfcn.h>

#include <cstdio>
#include <thread>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (int times = 0; times < 3; ++times) {
    void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    auto* const run = reinterpret_cast<void (*)()>(dlsym(plugin, "PluginRun"));
    if (run == nullptr) return 1;
    std::thread(run).join();
    dlclose(plugin);
  }
  return 0;
}
