// SPDX-License-Identifier: Apache-2.0
// kiln inspect of a package: everything that is in the file, without loading code.
#ifndef KILN_TOOLS_INSPECT_PACKAGE_H_
#define KILN_TOOLS_INSPECT_PACKAGE_H_

#include <string>

#include "nlohmann/json_fwd.hpp"
#include "tools/common.h"

namespace kiln {

// Checks every byte, prints what is there, and returns the exit code.
int InspectPackage(const std::string& path, const CommonOptions& common);
// Prints what `emit` names of the kernel whose key begins so.
int EmitOfPackage(const std::string& path, const std::string& key, const std::string& emit);

// A line for each port of the list that ToJson has made.
void PrintPorts(const nlohmann::json& ports, const char* what);

}  // namespace kiln

#endif  // KILN_TOOLS_INSPECT_PACKAGE_H_
