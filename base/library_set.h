// SPDX-License-Identifier: Apache-2.0
// LibrarySet: which libraries of whole operators there are for a device.
//
// The host's has every operator. A device has one for products, one for convolutions and pools, or
// neither: what none of them computes becomes kernels.
#ifndef KILN_BASE_LIBRARY_SET_H_
#define KILN_BASE_LIBRARY_SET_H_

#include <cstdint>

namespace kiln {

using LibrarySet = uint8_t;  // a union of these

inline constexpr LibrarySet kNoLibrary = 0;
inline constexpr LibrarySet kHostLibrary = 1;
inline constexpr LibrarySet kProductLibrary = 2;      // cuBLASLt
inline constexpr LibrarySet kConvolutionLibrary = 4;  // cuDNN

}  // namespace kiln

#endif  // KILN_BASE_LIBRARY_SET_H_
