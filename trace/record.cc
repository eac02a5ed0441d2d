// SPDX-License-Identifier: Apache-2.0
#include "trace/record.h"

namespace kiln::tracing {

Record::~Record() {
  for (const uint32_t id : captured)
    log.values[id].node->record_refs.fetch_sub(1, std::memory_order_release);
}

void Record::AddCaptured(uint32_t id) {
  captured.push_back(id);
  log.values[id].node->record_refs.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace kiln::tracing
