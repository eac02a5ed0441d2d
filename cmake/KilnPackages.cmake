# SPDX-License-Identifier: Apache-2.0
# `cpack --config build/release/CPackConfig.cmake` makes Debian packages of the installed components: what is Debian's own
# (Abseil, protobuf) they depend on, and Halide and oneDNN lie in them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kiln)
set(KILN_PACKAGE_CONTACT "The Kiln authors <kiln@localhost>" CACHE STRING "Maintainer that Debian packages name: set it to yourself")
set(CPACK_PACKAGE_CONTACT "${KILN_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "fuses the operators of neural networks into native kernels")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/DebianFiles.cmake") # what Debian's policy asks for
set(CPACK_POST_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/DebianFiles.cmake")
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip) # the second of these scripts compresses better
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENTS_ALL runtime compiler tools dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${KILN_DEPS}/onednn/lib" "${KILN_DEPS}/halide/lib64" "${PROJECT_BINARY_DIR}/lib")
set(CPACK_COMPONENT_COMPILER_DEPENDS runtime)
set(CPACK_COMPONENT_TOOLS_DEPENDS compiler)
set(CPACK_COMPONENT_DEV_DEPENDS runtime compiler)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libkiln-runtime${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "libssl3, libzstd1") # loaded for signed, and for compressed packages
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "runs packages of compiled neural networks
 libkiln_runtime loads what kiln compile has made and runs it, without a
 compiler.")
set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME libkiln${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_COMPILER_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS binutils) # as and ld, of kiln-codegen
set(CPACK_COMPONENT_COMPILER_DESCRIPTION "compiles neural networks and runs them
 libkiln reads ONNX models, fuses their operators into kernels, builds
 these with Halide in a process of its own, and keeps them in a cache.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME kiln)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "command line of Kiln
 Runs, measures, compiles, explains and verifies models, and looks after
 the kernel cache.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libkiln-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libabsl-dev")
set(CPACK_COMPONENT_DEV_DESCRIPTION "headers of Kiln
 For programs that use libkiln or libkiln_runtime, in C and C++.")
include(CPack)
