// SPDX-License-Identifier: Apache-2.0
// A plugin with an array that lives until it is closed.
#include "kiln/array.h"

extern "C" __attribute__((visibility("default"))) void PluginRun() {
  static const kiln::Array kept = kiln::Array::full({2}, 1.0);
  (void)kept.item<float>();
}
