# SPDX-License-Identifier: Apache-2.0
# The installed tree can be moved as a whole:
#   bin/kiln   libexec/kiln/kiln-codegen, kiln-validate   include/kiln/*.h
#   lib/libkiln_*.a   lib/cmake/kiln   lib/kiln: the shared libraries that only Kiln needs
#   lib/kiln/system: copies of the system's, for Kiln's programs on another machine. A program that links Kiln
#   has lib/kiln in its run-time path, where they would hide those that it was linked with.
# Headers of components lie under include/kiln/<component>/ for what has no public header yet; any commit may change them.
set(private_libs "${CMAKE_INSTALL_LIBDIR}/kiln")

# kiln_install_program(TARGET DIR): DIR is relative to the prefix.
function(kiln_install_program target dir)
  if(NOT TARGET ${target})
    return()
  endif()
  file(RELATIVE_PATH libs "/prefix/${dir}" "/prefix/${private_libs}")
  # RPATH and not RUNPATH: it also holds for what the private libraries need of each other.
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${libs};$ORIGIN/${libs}/system")
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  install(TARGETS ${target}
    RUNTIME_DEPENDENCIES
      PRE_INCLUDE_REGEXES "^libabsl_" "^libprotobuf-lite" "^libHalide" "^libhwy"
      PRE_EXCLUDE_REGEXES "."
    RUNTIME DESTINATION "${dir}"
    LIBRARY DESTINATION "${private_libs}/system")
endfunction()

kiln_install_program(kiln "${CMAKE_INSTALL_BINDIR}")
kiln_install_program(kiln-codegen "${CMAKE_INSTALL_LIBEXECDIR}/kiln")
kiln_install_program(kiln-validate "${CMAKE_INSTALL_LIBEXECDIR}/kiln")
# The private oneDNN and, by exec/support, the libkomp that it runs on; programs of others that link
# kiln::runtime take both from here too.
install(IMPORTED_RUNTIME_ARTIFACTS kiln::onednn LIBRARY DESTINATION "${private_libs}")
install(FILES "${KILN_DEPS}/onednn/share/doc/onednn/LICENSE"
  "${KILN_DEPS}/onednn/share/doc/onednn/THIRD-PARTY-PROGRAMS"
  "${CMAKE_CURRENT_LIST_DIR}/onednn-CHANGES" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/kiln/onednn")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/kiln" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
foreach(component base kernel graph schedule fusion persistent_cache exec compiler)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${component}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/kiln/${component}"
    FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY "${KILN_GEN_DIR}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/kiln"
  FILES_MATCHING PATTERN "*.pb.h")

include(CMakePackageConfigHelpers)
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/kiln")
set(helpers "${CMAKE_INSTALL_LIBEXECDIR}/kiln")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/kilnConfig.cmake.in" "${PROJECT_BINARY_DIR}/kilnConfig.cmake"
  INSTALL_DESTINATION "${package}" PATH_VARS private_libs helpers)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kilnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kilnConfig.cmake" "${PROJECT_BINARY_DIR}/kilnConfigVersion.cmake"
  DESTINATION "${package}")
install(EXPORT kilnTargets NAMESPACE kiln:: DESTINATION "${package}")
