// SPDX-License-Identifier: Apache-2.0
// What tests expect of the fields of schedules, by their names.
#ifndef KILN_TESTS_SCHEDULE_FIELDS_H_
#define KILN_TESTS_SCHEDULE_FIELDS_H_

#include <string>

#include "schedule/schedule.h"

namespace kiln {

// The number that a field has; `otherwise` if the schedule's template has no such field.
inline int64_t FieldOf(const Schedule& schedule, const std::string& name, int64_t otherwise) {
  for (const auto& [field, value] : schedule.Values())
    if (field == name) return std::stoll(value);
  return otherwise;
}

// The text of a field; "-" if there is none.
inline std::string TextOf(const Schedule& schedule, const std::string& name) {
  for (const auto& [field, value] : schedule.Values())
    if (field == name) return value;
  return "-";
}

}  // namespace kiln

#endif  // KILN_TESTS_SCHEDULE_FIELDS_H_
