// SPDX-License-Identifier: Apache-2.0
// Where the constants of a graph lie. A model reads them where its caller has handed them in, as
// often as it runs and whenever it makes another variant, so nothing may be written there.
#ifndef KILN_COMPILER_CONSTANT_MEMORY_H_
#define KILN_COMPILER_CONSTANT_MEMORY_H_

#include <string>
#include <utility>
#include <vector>

#include "exec/binding.h"
#include "graph/graph.h"

namespace kiln {

class ConstantMemory {
 public:
  // Constants, tensors among attributes, and those of the graphs that nodes own; and those that are
  // the graph's last inputs (graph/updatable.h), as `updatable` has them.
  explicit ConstantMemory(const Graph& graph, const std::vector<Tensor>& updatable = {});

  // The name of one that the range overlaps, of its node for an attribute; empty: none. In
  // logarithmic time if there is none.
  std::string NameIn(const MemoryRange& range) const;

 private:
  void Add(const Graph& graph);
  void Add(const std::string& name, const Tensor& tensor);

  std::vector<std::pair<std::string, MemoryRange>> constants_;
  BoundMemory all_;  // joined
};

}  // namespace kiln

#endif  // KILN_COMPILER_CONSTANT_MEMORY_H_
