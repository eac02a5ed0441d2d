// SPDX-License-Identifier: Apache-2.0
// Attributes and tensors as bytes, for tables of equal nodes. Equal bytes mean equal values; not
// meant to be read.
#ifndef KILN_FUSION_NODE_KEY_H_
#define KILN_FUSION_NODE_KEY_H_

#include <string>

#include "graph/graph.h"

namespace kiln {

void AppendAttrs(const Attrs& attrs, std::string& key);
void AppendTensor(const Tensor& tensor, std::string& key);

}  // namespace kiln

#endif  // KILN_FUSION_NODE_KEY_H_
