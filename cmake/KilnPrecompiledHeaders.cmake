# SPDX-License-Identifier: Apache-2.0
# With KILN_PRECOMPILED_HEADERS, what many sources include is compiled once: the headers below, none of which is Kiln's, for
# libraries, for programs, whose code is position-independent in another way, and with GoogleTest for tests. A compiler spends half
# of its time on them. A source that forgets to include one of them compiles all the same, so the other presets, and clang-tidy's,
# do without.
option(KILN_PRECOMPILED_HEADERS "Compile common headers once" OFF)
set(KILN_TEST_OPTIMIZATION "" CACHE STRING "Compiler option of tests alone, such as -O1: most take longer to compile than to run")
set(common_headers
  <algorithm> <cstdint> <functional> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string> <unordered_set> <utility> <vector>
  <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/types/span.h>
  <nlohmann/json.hpp>
  # What protoc writes begins with these.
  <google/protobuf/arena.h> <google/protobuf/extension_set.h> <google/protobuf/generated_message_util.h>
  <google/protobuf/io/coded_stream.h> <google/protobuf/message_lite.h> <google/protobuf/repeated_field.h>)

# kiln_precompiled_headers(HOLDER HEADERS... LIBRARIES...): compiles them for the targets that name HOLDER below.
function(kiln_precompiled_headers holder)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "EXECUTABLE" "" "HEADERS;LIBRARIES")
  if(ARG_EXECUTABLE)
    add_executable(${holder} "${PROJECT_BINARY_DIR}/precompiled.cc")
  else()
    add_library(${holder} OBJECT "${PROJECT_BINARY_DIR}/precompiled.cc")
  endif()
  kiln_target_defaults(${holder})
  target_link_libraries(${holder} PRIVATE absl::statusor absl::strings absl::span ${ARG_LIBRARIES})
  target_precompile_headers(${holder} PRIVATE ${common_headers} ${ARG_HEADERS})
endfunction()

if(KILN_PRECOMPILED_HEADERS)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cc" CONTENT "int main() {}\n")
  kiln_precompiled_headers(kiln_precompiled)
  kiln_precompiled_headers(kiln_precompiled_for_programs EXECUTABLE)
  if(KILN_TESTS)
    kiln_precompiled_headers(
      kiln_precompiled_for_tests EXECUTABLE
      HEADERS <filesystem> <fstream> <random> <gmock/gmock.h> <gtest/gtest.h>
      LIBRARIES GTest::gmock)
    target_compile_options(kiln_precompiled_for_tests PRIVATE ${KILN_TEST_OPTIMIZATION})
  endif()
endif()

# g++ 12 sees writes past a short std::string in operator+, and does not take a precompiled header for one of the system.
set(KILN_TEST_WARNINGS "$<$<AND:$<BOOL:${KILN_PRECOMPILED_HEADERS}>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-array-bounds;-Wno-stringop-overflow>")

# kiln_use_precompiled_headers(TARGET HOLDER): HOLDER is one of those above. A source with compiler options
# of its own has SKIP_PRECOMPILE_HEADERS.
function(kiln_use_precompiled_headers target holder)
  if(KILN_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${holder})
  endif()
endfunction()
