# The CMake package 'Strata' for authors of plugins: find_package(Strata) gives Strata::sdk and strata_add_plugin.

include(CMakePackageConfigHelpers)
set(strata_package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/Strata)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/StrataConfig.cmake.in ${CMAKE_BINARY_DIR}/StrataConfig.cmake
  INSTALL_DESTINATION ${strata_package_directory})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/StrataConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(EXPORT StrataTargets NAMESPACE Strata:: DESTINATION ${strata_package_directory} COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/StrataConfig.cmake ${CMAKE_BINARY_DIR}/StrataConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/StrataPlugin.cmake ${CMAKE_CURRENT_LIST_DIR}/StrataPackage.cmake
  DESTINATION ${strata_package_directory} COMPONENT development)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/strata/configs COMPONENT runtime)
# `strata plugins new` copies them. The build tree has them at the same place.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/sdk/templates/ DESTINATION ${CMAKE_INSTALL_DATADIR}/strata/templates
  COMPONENT development)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${CMAKE_INSTALL_DATADIR}/strata)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/sdk/templates ${CMAKE_BINARY_DIR}/${CMAKE_INSTALL_DATADIR}/strata/templates SYMBOLIC)
