# SPDX-License-Identifier: Apache-2.0
# With KILN_PRECOMPILED_HEADERS, what most sources include is compiled once: the headers below for libraries, those and
# GoogleTest for tests, whose code is position-independent in another way. A compiler spends half of its time on them. A source that
# forgets to include one of them compiles all the same, so the other presets, and clang-tidy's, do without.
option(KILN_PRECOMPILED_HEADERS "Compile common headers once" OFF)
set(common_headers
  <algorithm> <cstdint> <functional> <map> <memory> <optional> <set> <string> <utility> <vector>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/types/span.h>)

if(KILN_PRECOMPILED_HEADERS)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cc" CONTENT "int main() {}\n")
  add_library(kiln_precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cc")
  kiln_target_defaults(kiln_precompiled)
  target_link_libraries(kiln_precompiled PRIVATE absl::statusor absl::strings absl::span)
  target_precompile_headers(kiln_precompiled PRIVATE ${common_headers})
  if(KILN_TESTS)
    add_executable(kiln_precompiled_for_tests "${PROJECT_BINARY_DIR}/precompiled.cc")
    kiln_target_defaults(kiln_precompiled_for_tests)
    target_link_libraries(kiln_precompiled_for_tests PRIVATE absl::statusor absl::strings absl::span GTest::gmock)
    target_precompile_headers(kiln_precompiled_for_tests PRIVATE ${common_headers} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()

# g++ 12 sees writes past a short std::string in operator+, and does not take a precompiled header for one of the system.
set(KILN_TEST_WARNINGS "$<$<AND:$<BOOL:${KILN_PRECOMPILED_HEADERS}>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-array-bounds;-Wno-stringop-overflow>")

# kiln_use_precompiled_headers(TARGET HOLDER): HOLDER is one of the two above. A source with compiler options
# of its own has SKIP_PRECOMPILE_HEADERS.
function(kiln_use_precompiled_headers target holder)
  if(KILN_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${holder})
  endif()
endfunction()
