# SPDX-License-Identifier: Apache-2.0
# The few functions the CMakeLists.txt of the components are written in.
#
#   kiln_library(NAME kiln_exec SRCS a.cc b.cc DEPS kiln_base absl::strings)  # also kiln::exec
#   kiln_proto(NAME kiln_program_proto PROTOS program.proto DEPS ...)         # exec/program.pb.h
#   kiln_executable(NAME kiln SRCS main.cc DEPS kiln::compiler)               # <build>/bin/kiln
#   kiln_test(NAME exec_planner_test SRCS planner_test.cc DEPS kiln_exec LABEL unit)
#   kiln_bundle(NAME parts...)              # an interface over those parts that exist in this tree
#
# Includes read "<component>/file.h", the path from the root of the sources, which is searched for quoted
# includes only; generated headers lie under <build>/gen/<component>. Public headers are include/kiln/file.h
# and read "kiln/file.h", here as in programs that use the installed package.

set(KILN_GEN_DIR "${PROJECT_BINARY_DIR}/gen")
set(KILN_BIN_DIR "${PROJECT_BINARY_DIR}/bin")
file(MAKE_DIRECTORY "${KILN_GEN_DIR}")

# Tools that read the sources (clang-tidy) need the generated headers but nothing compiled.
add_custom_target(kiln_generated)

# Strict arithmetic is a property of the code, not of a preset: without it the VM and the reference
# interpreter would contract a*b+c and differ from the kernels.
function(kiln_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Sections of their own: the shared libraries leave out what they do not export or use.
  target_compile_options(${target} PRIVATE -ffp-contract=off -Wall -Wextra -ffunction-sections -fdata-sections)
  target_compile_options(${target} PUBLIC
    "SHELL:-iquote ${PROJECT_SOURCE_DIR}" "SHELL:-iquote ${PROJECT_SOURCE_DIR}/include" "SHELL:-iquote ${KILN_GEN_DIR}")
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON
    RUNTIME_OUTPUT_DIRECTORY "${KILN_BIN_DIR}")
endfunction()

# A source that is listed but not written yet is a warning, so that one unfinished component does not keep
# the others from building; the ci preset takes it as the error it is.
function(kiln_sources variable)
  set(sources)
  foreach(source IN LISTS ARGN)
    if(IS_ABSOLUTE "${source}" OR EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${source}" OR CMAKE_COMPILE_WARNING_AS_ERROR)
      list(APPEND sources "${source}")
    else()
      message(WARNING "no source \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"; building without it")
    endif()
  endforeach()
  if(NOT sources)
    set(sources "${PROJECT_BINARY_DIR}/empty.cc")
    file(TOUCH "${sources}")
  endif()
  set(${variable} "${sources}" PARENT_SCOPE)
endfunction()

# Plain target names for kiln::x: a library of a component that is not there then fails at the link of what
# needs it, not for all.
function(kiln_deps variable)
  set(deps ${ARGN})
  list(TRANSFORM deps REPLACE "^kiln::compiler$" "kiln_compile")
  list(TRANSFORM deps REPLACE "^kiln::" "kiln_")
  set(${variable} "${deps}" PARENT_SCOPE)
endfunction()

# kiln_compile_in_groups(TARGET SOURCES...): with KILN_UNITY_BUILD, sources that share no private name are compiled together, eight
# at most: most of the time of a compiler goes into the headers and templates that all of them use. A source with options of its own
# is compiled alone. After an edit that gives two sources of a group one name, configuring anew parts them.
option(KILN_UNITY_BUILD "Compile several sources of a component at once" OFF)
function(kiln_compile_in_groups target)
  list(LENGTH ARGN count)
  if(NOT KILN_UNITY_BUILD OR count LESS 2)
    return()
  endif()
  list(FILTER ARGN EXCLUDE REGEX "^/")
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  execute_process(
    COMMAND python3 -B "${PROJECT_SOURCE_DIR}/cmake/unity_groups.py" "${PROJECT_SOURCE_DIR}" ${ARGN}
    OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([0-9]+) (.*)$" line "${line}")
    set_property(SOURCE "${CMAKE_MATCH_2}" PROPERTY UNITY_GROUP "${CMAKE_MATCH_1}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Sources that a program may have in place of the library's, so they are compiled alone: lists of devices, of which
# tests/second_device has others.
function(kiln_replaceable)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(kiln_library)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME" "SRCS;DEPS")
  kiln_sources(sources ${ARG_SRCS})
  add_library(${ARG_NAME} STATIC ${sources})
  string(REGEX REPLACE "^kiln_" "" short ${ARG_NAME})
  if(NOT short STREQUAL "compiler")  # kiln::compiler is the bundle that programs link
    add_library(kiln::${short} ALIAS ${ARG_NAME})
  endif()
  kiln_target_defaults(${ARG_NAME})
  kiln_use_precompiled_headers(${ARG_NAME} kiln_precompiled)
  kiln_compile_in_groups(${ARG_NAME} ${sources})
  kiln_deps(deps ${ARG_DEPS})
  target_link_libraries(${ARG_NAME} PUBLIC ${deps})
endfunction()

# PRECOMPILED: which headers (KilnPrecompiledHeaders).
function(kiln_executable)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME;PRECOMPILED" "SRCS;DEPS")
  if(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED kiln_precompiled_for_programs)
  endif()
  kiln_sources(sources ${ARG_SRCS})
  add_executable(${ARG_NAME} ${sources})
  kiln_target_defaults(${ARG_NAME})
  kiln_use_precompiled_headers(${ARG_NAME} ${ARG_PRECOMPILED})
  kiln_compile_in_groups(${ARG_NAME} ${sources})
  kiln_deps(deps ${ARG_DEPS})
  target_link_libraries(${ARG_NAME} PRIVATE ${deps})
endfunction()

# kiln_optimise_for_size(TARGET): of components in the runtime library that no run waits for. Without KILN_OPTIMIZE_FOR_SIZE they
# are compiled as the others are, with the same precompiled headers: a third of the time, in builds of which nobody counts the bytes.
option(KILN_OPTIMIZE_FOR_SIZE "Optimise what no run waits for for size" ON)
function(kiln_optimise_for_size target)
  if(NOT KILN_OPTIMIZE_FOR_SIZE)
    return()
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
  set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON) # theirs are compiled for speed
endfunction()

# The same of some sources of a component, which are compiled alone then.
function(kiln_optimise_sources_for_size)
  if(NOT KILN_OPTIMIZE_FOR_SIZE)
    return()
  endif()
  set_source_files_properties(
    ${ARGN} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>" SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
endfunction()

function(kiln_bundle name)
  add_library(${name} INTERFACE)
  foreach(part IN LISTS ARGN)
    if(TARGET ${part})
      target_link_libraries(${name} INTERFACE ${part})
    endif()
  endforeach()
endfunction()

# Messages for the lite runtime. A .proto is named by its path from the root, so that it imports others as
# "exec/x.proto".
function(kiln_proto)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME" "PROTOS;DEPS")
  file(RELATIVE_PATH component "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(outputs)
  foreach(proto IN LISTS ARG_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem "${component}/${proto}")
    set(made "${KILN_GEN_DIR}/${stem}.pb.cc" "${KILN_GEN_DIR}/${stem}.pb.h")
    add_custom_command(
      OUTPUT ${made}
      COMMAND protobuf::protoc "--proto_path=${PROJECT_SOURCE_DIR}" "--cpp_out=lite:${KILN_GEN_DIR}"
              "${PROJECT_SOURCE_DIR}/${stem}.proto"
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${proto}"
      COMMENT "protoc ${stem}.proto"
      VERBATIM)
    list(APPEND outputs ${made})
  endforeach()
  add_library(${ARG_NAME} STATIC ${outputs})
  kiln_target_defaults(${ARG_NAME})
  target_compile_options(${ARG_NAME} PRIVATE -w)
  kiln_optimise_for_size(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PUBLIC protobuf::libprotobuf-lite ${ARG_DEPS})
  add_custom_target(${ARG_NAME}_headers DEPENDS ${outputs})
  add_dependencies(kiln_generated ${ARG_NAME}_headers)
endfunction()

# One ctest entry per binary: scripts/test counts the cases from the XML that gtest writes. All tests
# share one kernel cache in the build tree, so that a kernel is compiled once per build. Kernels for GPUs are not assembled,
# whether the CUDA toolkit is there or not, but by tests that ASSEMBLE.
function(kiln_test)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "ASSEMBLE" "NAME;LABEL;TIMEOUT" "SRCS;DEPS")
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  set(ptxas none)
  if(ARG_ASSEMBLE)
    set(ptxas "")
  endif()
  kiln_executable(
    NAME ${ARG_NAME} SRCS ${ARG_SRCS} DEPS ${ARG_DEPS} GTest::gmock GTest::gtest_main PRECOMPILED kiln_precompiled_for_tests)
  target_compile_options(${ARG_NAME} PRIVATE "${KILN_TEST_WARNINGS}" ${KILN_TEST_OPTIMIZATION})
  target_compile_definitions(${ARG_NAME} PRIVATE
    KILN_TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data" KILN_TEST_BIN_DIR="${KILN_BIN_DIR}")
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/bin")
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES
    LABELS ${ARG_LABEL}
    TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "KILN_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/kernel-cache;KILN_PTXAS=${ptxas}")
endfunction()

# The tests of a binary at length, labelled full: an entry of its own, with variables that ask for more.
#   kiln_full_test(NAME x_full TEST x_test TIMEOUT 5400 ENVIRONMENT KILN_SEED=7 ARGS --gtest_filter=*Random*)
function(kiln_full_test)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "ASSEMBLE" "NAME;TEST;TIMEOUT" "ARGS;ENVIRONMENT")
  set(ptxas none)
  if(ARG_ASSEMBLE)
    set(ptxas "")
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_TEST} ${ARG_ARGS})
  set_tests_properties(${ARG_NAME} PROPERTIES
    LABELS full
    TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "KILN_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/kernel-cache;KILN_PTXAS=${ptxas};${ARG_ENVIRONMENT}")
endfunction()

# Sets `variable` to a generated source that defines the constant NAME of HEADER: a digest of all files that the globs
# name, from the project's root. It changes whenever one of them does.
function(kiln_source_digest variable)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "NAME;HEADER;COMMENT" "GLOBS")
  list(TRANSFORM ARG_GLOBS PREPEND "${PROJECT_SOURCE_DIR}/")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" ${ARG_GLOBS})
  list(JOIN sources "\n" lines)
  set(list "${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}_sources.txt")
  file(GENERATE OUTPUT "${list}" CONTENT "${lines}\n")
  string(REGEX REPLACE "\\.h$" ".cc" out "${KILN_GEN_DIR}/${ARG_HEADER}")
  list(TRANSFORM sources PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE paths)
  set(script "${PROJECT_SOURCE_DIR}/cmake/MakeSourceDigest.cmake")
  add_custom_command(
    OUTPUT "${out}"
    COMMAND ${CMAKE_COMMAND} "-DLIST=${list}" "-DROOT=${PROJECT_SOURCE_DIR}" "-DHEADER=${ARG_HEADER}"
            "-DNAME=${ARG_NAME}" "-DOUT=${out}" -P "${script}"
    DEPENDS ${paths} "${list}" "${script}"
    COMMENT "${ARG_COMMENT}"
    VERBATIM)
  set(${variable} "${out}" PARENT_SCOPE)
endfunction()
