# SPDX-License-Identifier: Apache-2.0
# What a program links: libkiln.so compiles models and runs them, libkiln_runtime.so, a part of it, runs packages. Both
# export what KILN_API stands before, and nothing else; a program links one of the two.
#
# kiln_shared(TARGET OUTPUT NAME PARTS... DEPS...): a library of all objects of these components, without what no
# exported function needs.
function(kiln_shared target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "OUTPUT" "PARTS;DEPS")
  list(TRANSFORM ARG_PARTS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(${target} SHARED ${objects})
  set(map "${PROJECT_SOURCE_DIR}/cmake/libkiln.map")
  target_link_libraries(${target} PRIVATE ${ARG_PARTS} ${ARG_DEPS})
  target_link_options(${target} PRIVATE
    "-Wl,--version-script=${map}" -Wl,--no-undefined -Wl,--gc-sections -Wl,--as-needed -Wl,-z,relro,-z,now)
  set_target_properties(${target} PROPERTIES
    LINKER_LANGUAGE CXX
    OUTPUT_NAME ${ARG_OUTPUT}
    SOVERSION ${PROJECT_VERSION_MAJOR}
    VERSION ${PROJECT_VERSION}
    LINK_DEPENDS "${map}"
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
endfunction()

# A sanitizer's runtime is in the program, so its symbols are undefined in a library.
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  return()
endif()

set(runtime_parts kiln_base kiln_kernel kiln_persistent_cache kiln_pool kiln_vm_ops kiln_vm kiln_loader kiln_validation kiln_library_shapes
  kiln_exec_library kiln_program_proto kiln_exec kiln_package_proto kiln_package kiln_c_runtime)
kiln_shared(kiln_runtime_shared OUTPUT kiln_runtime PARTS ${runtime_parts})
kiln_shared(
  kiln_shared
  OUTPUT kiln
  PARTS ${runtime_parts} kiln_graph kiln_onnx_proto kiln_onnx kiln_schedule kiln_fusion kiln_codegen_protocol
        kiln_stored_proto kiln_compiler kiln_training kiln_trace kiln_c_compiler)
