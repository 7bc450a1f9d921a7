# The CMake package 'Strata' and the pkg-config package 'strata' for authors of plugins.

include(CMakePackageConfigHelpers)
set(strata_package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/Strata)
# find_package does not look into this folder of the build tree. It finds StrataConfig.cmake at the top of the tree, which
# says what to do.
set(strata_package_files ${CMAKE_BINARY_DIR}/packaging)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/StrataConfig.cmake.in ${strata_package_files}/StrataConfig.cmake
  INSTALL_DESTINATION ${strata_package_directory})
foreach(folder IN ITEMS ${strata_package_files} ${CMAKE_BINARY_DIR})
  write_basic_package_version_file(${folder}/StrataConfigVersion.cmake COMPATIBILITY SameMinorVersion)
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/StrataBuildTreeConfig.cmake.in ${CMAKE_BINARY_DIR}/StrataConfig.cmake @ONLY)

set(strata_pkgconfig_directory ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH strata_prefix_from_pkgconfig /prefix/${strata_pkgconfig_directory} /prefix)
string(REGEX REPLACE "/$" "" strata_prefix_from_pkgconfig "${strata_prefix_from_pkgconfig}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/strata.pc.in ${strata_package_files}/strata.pc @ONLY)

install(EXPORT StrataTargets NAMESPACE Strata:: DESTINATION ${strata_package_directory} COMPONENT development)
install(FILES ${strata_package_files}/StrataConfig.cmake ${strata_package_files}/StrataConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/StrataPlugin.cmake ${CMAKE_CURRENT_LIST_DIR}/StrataPlugin.map
              ${CMAKE_CURRENT_LIST_DIR}/StrataChecksums.cmake
              ${CMAKE_CURRENT_LIST_DIR}/StrataPackage.cmake
  DESTINATION ${strata_package_directory} COMPONENT development)
install(FILES ${strata_package_files}/strata.pc DESTINATION ${strata_pkgconfig_directory} COMPONENT development)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/strata/configs COMPONENT runtime)
# For administrators: a systemd unit, a snippet for logrotate and a module file.
set(strata_cluster_files ${CMAKE_SOURCE_DIR}/packaging/cluster)
foreach(file IN ITEMS modulefile strata@.service)
  configure_file(${strata_cluster_files}/${file}.in ${strata_package_files}/${file} @ONLY)
endforeach()
install(FILES ${strata_package_files}/strata@.service ${strata_cluster_files}/strata.logrotate
  DESTINATION ${CMAKE_INSTALL_DATADIR}/strata/cluster COMPONENT runtime)
install(FILES ${strata_package_files}/modulefile RENAME ${PROJECT_VERSION}
  DESTINATION ${CMAKE_INSTALL_DATADIR}/strata/cluster/modulefiles/strata COMPONENT runtime)
# `strata plugins new` copies them.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/sdk/templates/ DESTINATION ${CMAKE_INSTALL_DATADIR}/strata/templates
  COMPONENT development)
# The guides, with the files of the source tree that they link to, at the same places relative to each other.
set(strata_documents ${CMAKE_INSTALL_DATADIR}/doc/strata)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/CHANGELOG.md ${CMAKE_SOURCE_DIR}/LICENSE
  DESTINATION ${strata_documents} COMPONENT documents)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs ${CMAKE_SOURCE_DIR}/configs DESTINATION ${strata_documents} COMPONENT documents)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/tests/external DESTINATION ${strata_documents}/tests COMPONENT documents
  PATTERN "*.sh" EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models/common DESTINATION ${strata_documents}/models COMPONENT documents)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${CMAKE_INSTALL_DATADIR}/strata)
# The build tree has templates and configurations at the same place.
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/sdk/templates ${CMAKE_BINARY_DIR}/${CMAKE_INSTALL_DATADIR}/strata/templates SYMBOLIC)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/configs ${CMAKE_BINARY_DIR}/${CMAKE_INSTALL_DATADIR}/strata/configs SYMBOLIC)
