// SPDX-License-Identifier: Apache-2.0
// What turns a model into Programs, as a constant that is part of every cached Program's key.
#ifndef KILN_COMPILER_BUILD_ID_H_
#define KILN_COMPILER_BUILD_ID_H_

namespace kiln {

// Hexadecimal digest over all sources between a model file and a Program: base/, kernel/, graph/,
// schedule/, fusion/, exec/ and compiler/.
extern const char kCompilerBuildId[];

}  // namespace kiln

#endif  // KILN_COMPILER_BUILD_ID_H_
