# SPDX-License-Identifier: Apache-2.0
# The installed tree can be moved as a whole:
#   bin/kiln   libexec/kiln/kiln-codegen, kiln-validate   include/kiln/*.h
#   lib/libkiln.so, libkiln_runtime.so   lib/cmake/kiln   lib/pkgconfig
#   lib/kiln: the private oneDNN and the threads that it runs on; Halide; what opens GPUs, and the emulated one
#   lib/kiln/system: copies of the system's libraries, for a machine that lacks them
#   share/man, and completions for bash, zsh and fish where these look for those of packages
# Components, for CPack and `cmake --install --component`: runtime, compiler, tools, dev; and system, the copies.
set(private_libs "${CMAKE_INSTALL_LIBDIR}/kiln")
set(helpers "${CMAKE_INSTALL_LIBEXECDIR}/kiln")

# kiln_install_binary(TARGET COMPONENT DIR): a program or shared library, and copies of what it needs of the system.
function(kiln_install_binary target component dir)
  if(NOT TARGET ${target})
    return()
  endif()
  file(RELATIVE_PATH libs "/prefix/${dir}" "/prefix/${private_libs}")
  # RPATH and not RUNPATH: it also holds for what the private libraries need of each other.
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${libs};$ORIGIN/${libs}/system")
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS ${target}
    RUNTIME_DEPENDENCY_SET ${target}_system
    RUNTIME DESTINATION "${dir}" COMPONENT ${component}
    LIBRARY DESTINATION "${dir}" COMPONENT ${component} NAMELINK_COMPONENT dev)
  install(RUNTIME_DEPENDENCY_SET ${target}_system
    PRE_INCLUDE_REGEXES "^libabsl_" "^libprotobuf-lite" "^libhwy"
    PRE_EXCLUDE_REGEXES "."
    LIBRARY DESTINATION "${private_libs}/system" COMPONENT system)
endfunction()

kiln_install_binary(kiln_runtime_shared runtime "${CMAKE_INSTALL_LIBDIR}")
kiln_install_binary(kiln_shared compiler "${CMAKE_INSTALL_LIBDIR}")
kiln_install_binary(kiln_cuda_module runtime "${private_libs}")
kiln_install_binary(kiln_ptx_driver tools "${private_libs}")
kiln_install_binary(kiln-validate runtime "${helpers}")
kiln_install_binary(kiln-codegen compiler "${helpers}")
kiln_install_binary(kiln tools "${CMAKE_INSTALL_BINDIR}")
install(IMPORTED_RUNTIME_ARTIFACTS kiln::onednn LIBRARY DESTINATION "${private_libs}" COMPONENT runtime)
install(IMPORTED_RUNTIME_ARTIFACTS Halide::Halide LIBRARY DESTINATION "${private_libs}" COMPONENT compiler)
install(TARGETS kiln_komp LIBRARY DESTINATION "${private_libs}" COMPONENT runtime NAMELINK_SKIP)
install(FILES "${KILN_DEPS}/onednn/share/doc/onednn/LICENSE"
  "${KILN_DEPS}/onednn/share/doc/onednn/THIRD-PARTY-PROGRAMS"
  "${CMAKE_CURRENT_LIST_DIR}/onednn-CHANGES" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/kiln/onednn" COMPONENT runtime)

install(DIRECTORY "${PROJECT_BINARY_DIR}/share/" DESTINATION "${CMAKE_INSTALL_DATADIR}" COMPONENT tools
  PATTERN stamp EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/THIRD_PARTY.md"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/kiln" COMPONENT runtime)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/kiln" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

include(CMakePackageConfigHelpers)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/kiln")
set(libraries "${CMAKE_INSTALL_LIBDIR}")
set(headers "${CMAKE_INSTALL_INCLUDEDIR}")
set(programs "${CMAKE_INSTALL_BINDIR}")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/kilnConfig.cmake.in" "${PROJECT_BINARY_DIR}/kilnConfig.cmake"
  INSTALL_DESTINATION "${package}" PATH_VARS libraries headers helpers programs)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kilnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kilnConfig.cmake" "${PROJECT_BINARY_DIR}/kilnConfigVersion.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/KilnAddModel.cmake"
  DESTINATION "${package}" COMPONENT dev)
# As the targets of kilnConfig.cmake: with Abseil, and by the C interface alone.
foreach(name kiln kiln_runtime kiln_c kiln_runtime_c)
  string(REGEX REPLACE "_c$" "" library ${name})
  set(requires "absl_status absl_statusor absl_strings")
  if(NOT library STREQUAL name)
    set(requires)
  endif()
  configure_file("${CMAKE_CURRENT_LIST_DIR}/kiln.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT dev)
endforeach()
