// SPDX-License-Identifier: Apache-2.0
// A C++ header for one model: a class whose Run takes and gives tensors of the types and ranks that
// the model has, so that a program with others does not compile. It needs kiln/kiln.hpp (C++17).
//
//   softmax::Model model = softmax::Model::Load("softmax.kiln");
//   softmax::Outputs out = model.Run({.x = {x, {2, 64}}, .mask = {mask, {64}}});
//   float first = out.y[0];
#ifndef KILN_TOOLS_TYPED_HEADER_H_
#define KILN_TOOLS_TYPED_HEADER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/model.h"

namespace kiln {

// `name` as an identifier of C++: other characters are "_", and keywords end in it.
std::string Identifier(absl::string_view name);

// The text of the header; all that it declares is in the namespace `name`, an identifier. Ports
// whose names are one identifier are numbered. Model::LoadEmbedded reads the bytes from
// kiln_package_NAME to kiln_package_NAME_end, which cmake/KilnAddModel.cmake links.
std::string TypedHeader(const std::string& name, const std::vector<PortInfo>& inputs,
                        const std::vector<PortInfo>& outputs);

}  // namespace kiln

#endif  // KILN_TOOLS_TYPED_HEADER_H_
