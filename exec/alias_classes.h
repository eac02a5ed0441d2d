// SPDX-License-Identifier: Apache-2.0
// Which buffers of a plan share memory for good, and how long each class of them is needed.
// placement.h says how classes form.
//
// Some steps have two ways, of which neither is always better:
//
//   view of a part of a buffer     first: it is the buffer's memory, all of which lives as long
//                                  second: a copy
//   part copied into a whole       first: what makes the part writes it where it will be, and the
//                                  whole lives from then on; second: a copy
//   launch that works in place on  first: the output's memory holds nothing before, so that an
//   an input or on a temporary     input may be donated to it (donation.h)
//                                  second: the temporary lies in the output's memory
#ifndef KILN_EXEC_ALIAS_CLASSES_H_
#define KILN_EXEC_ALIAS_CLASSES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/placement_problem.h"

namespace kiln {

struct AliasClasses {
  // Steps that touch the class of a root: the first and the last; last < first: none.
  struct Life {
    int64_t first = 0, last = -1;
  };
  // A step with two ways. Those with equal keys are chosen together.
  struct Choice {
    size_t step = 0;
    int64_t key = 0;
  };
  std::vector<Placement::Place> places;  // per buffer
  std::vector<Life> lives;               // per buffer; only those of roots mean something
  std::vector<bool> copies;              // per step: a view that must be copied
  std::vector<Choice> choices;           // taken the first way, in order
};

// `second`: per step, whether it goes the second way. Errors as of PlaceBuffers. Without
// `in_place`, no launch works in place.
absl::StatusOr<AliasClasses> FormClasses(const PlacementProblem& problem,
                                         const std::vector<bool>& second, bool in_place = true);

}  // namespace kiln

#endif  // KILN_EXEC_ALIAS_CLASSES_H_
