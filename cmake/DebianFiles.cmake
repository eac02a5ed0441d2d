# SPDX-License-Identifier: Apache-2.0
# A script of CPack. Before the packages are made it adds to each component's tree what Debian's policy asks for; after, it makes
# each package anew without the maintainer scripts that CPack writes, because ldconfig is run by a trigger.
set(root "${CMAKE_CURRENT_LIST_DIR}/..")
if(CPACK_PACKAGE_FILES) # after
  foreach(package IN LISTS CPACK_PACKAGE_FILES)
    set(tree "${package}.tree")
    execute_process(COMMAND dpkg-deb --raw-extract "${package}" "${tree}" COMMAND_ERROR_IS_FATAL ANY)
    file(REMOVE "${tree}/DEBIAN/postinst" "${tree}/DEBIAN/postrm")
    if(EXISTS "${tree}/DEBIAN/shlibs")
      file(WRITE "${tree}/DEBIAN/triggers" "activate-noawait ldconfig\n")
    endif()
    execute_process(COMMAND dpkg-deb --root-owner-group --build "${tree}" "${package}" COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
    file(REMOVE_RECURSE "${tree}")
  endforeach()
  return()
endif()

set(name_runtime "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME}")
set(name_compiler "${CPACK_DEBIAN_COMPILER_PACKAGE_NAME}")
set(name_tools "${CPACK_DEBIAN_TOOLS_PACKAGE_NAME}")
set(name_dev "${CPACK_DEBIAN_DEV_PACKAGE_NAME}")
set(overrides_dev
  "pkg-config-unavailable-for-cross-compilation" # the libraries are not in a multiarch directory: there is one architecture
)
file(READ "${root}/THIRD_PARTY.md" third_party)
file(TIMESTAMP "${root}/CHANGELOG.md" date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, if it is set
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(name "${name_${component}}")
  set(share "${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}/share")
  set(doc "${share}/doc/${name}")
  file(WRITE "${doc}/copyright" "Kiln is under the Apache License 2.0: /usr/share/common-licenses/Apache-2.0\n\n${third_party}")
  file(WRITE "${doc}/changelog" "kiln (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
    "  * What a user notices is in CHANGELOG.md of the sources.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  file(GLOB pages "${share}/man/man1/*.1")
  execute_process(COMMAND gzip -9n "${doc}/changelog" ${pages} COMMAND_ERROR_IS_FATAL ANY)
  foreach(tag IN LISTS overrides_${component})
    file(APPEND "${share}/lintian/overrides/${name}" "${name}: ${tag}\n")
  endforeach()
endforeach()
file(GLOB onednn "${CPACK_TEMPORARY_DIRECTORY}/runtime${CPACK_PACKAGING_INSTALL_PREFIX}/lib*/kiln/libkdnn.so.*")
execute_process(COMMAND strip --strip-unneeded ${onednn} COMMAND_ERROR_IS_FATAL ANY)
