# SPDX-License-Identifier: Apache-2.0
# kiln_add_model(NAME MODEL FILE [TARGETS x86-64-v3 x86-64-v4] [STATIC] [OPTIONS ...])
#
# Compiles a model while the project is built, and makes the library NAME:
#   target_link_libraries(program PRIVATE NAME)
#   #include "NAME.h"                                      // namespace NAME: Inputs, Outputs, Model
#   NAME::Model model = NAME::Model::Load(NAME_PACKAGE);   // or, STATIC: NAME::Model::LoadEmbedded()
#
# FILE is an ONNX model, or Kiln's text (.graph). TARGETS: levels of CPUs that code is made for; without them that of the
# machine that builds. OPTIONS: further flags of `kiln compile`, such as --dim batch=8 or --shapes FILE. The package is
# NAME.kiln in the current binary directory; the macro NAME_PACKAGE and the target's property KILN_PACKAGE are its
# absolute path there, so a program that is installed gives Load the path at which it installs the package. STATIC: it
# lies in a static library, and the program needs no file.
#
# What the model reads (external data, --shapes, --machine) is remembered: a change makes the package anew, and no change
# makes nothing. Needs the program kiln, C++17, and a generator that takes depfiles (Ninja, Makefiles).
function(kiln_add_model name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "STATIC" "MODEL" "TARGETS;OPTIONS")
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_MODEL)
    message(FATAL_ERROR "kiln_add_model(${name} ${ARGN}): expected MODEL FILE [TARGETS ...] [STATIC] [OPTIONS ...]")
  endif()
  if(NOT name MATCHES "^[A-Za-z][A-Za-z0-9_]*$" OR name MATCHES "__|_$")
    message(FATAL_ERROR "kiln_add_model(${name}): the name becomes a namespace; choose an identifier such as my_net")
  endif()
  if(NOT TARGET kiln::kiln)
    message(FATAL_ERROR "kiln_add_model(${name}): the program kiln is not installed beside the CMake package")
  endif()
  get_filename_component(model "${ARG_MODEL}" ABSOLUTE)
  set(package "${CMAKE_CURRENT_BINARY_DIR}/${name}.kiln")
  set(header "${CMAKE_CURRENT_BINARY_DIR}/${name}.kiln.dir/${name}.h")
  file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/${name}.kiln.dir")
  list(TRANSFORM ARG_TARGETS PREPEND "--target=" OUTPUT_VARIABLE targets)
  add_custom_command(
    OUTPUT "${package}" "${header}"
    COMMAND kiln::kiln compile "${model}" -o "${package}" --header "${header}" --depfile "${package}.d" ${targets} -q
            ${ARG_OPTIONS}
    DEPENDS "${model}" kiln::kiln
    DEPFILE "${package}.d"
    COMMENT "Compiling ${name}.kiln"
    VERBATIM)
  add_custom_target(${name}_package DEPENDS "${package}" "${header}")

  if(ARG_STATIC)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${name}.kiln.dir/${name}.cc")
    file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT [=[
// Made by kiln_add_model: the package as constants.
__asm__(
    ".pushsection .rodata\n.balign 4096\n"
    ".globl kiln_package_@name@\nkiln_package_@name@:\n.incbin \"@package@\"\n"
    ".globl kiln_package_@name@_end\nkiln_package_@name@_end:\n.byte 0\n.popsection\n");
]=])
    add_library(${name} STATIC "${source}")
    set_source_files_properties("${source}" PROPERTIES OBJECT_DEPENDS "${package}")
    set(scope PUBLIC)
    target_link_libraries(${name} PUBLIC kiln::runtime_c)
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(${name} INTERFACE kiln::runtime_c)
  endif()
  add_dependencies(${name} ${name}_package)
  target_include_directories(${name} ${scope} "${CMAKE_CURRENT_BINARY_DIR}/${name}.kiln.dir")
  target_compile_features(${name} ${scope} cxx_std_17)
  string(TOUPPER "${name}" macro)
  if(NOT ARG_STATIC)
    target_compile_definitions(${name} INTERFACE "${macro}_PACKAGE=\"${package}\"")
  endif()
  set_target_properties(${name} PROPERTIES KILN_PACKAGE "${package}")
endfunction()
