# For projects of plugins, beside strata_add_plugin.
#
# strata_add_verification(CONFIG [ARGUMENT]...)
#   Adds a test: `strata verify CONFIG ARGUMENT...` with the plugins of this build.
#
# strata_package_plugins([DEPENDS <package>...])
#   Sets up CPack, so that `cpack` in the build folder makes a package that installs the project's plugins beside this
#   Strata's own: a .deb, a .rpm or an archive, by the tools found. The package needs a Strata with the same ABI number.
#   Call it last. CPACK_PACKAGE_CONTACT names the maintainer; its default is git's user.

function(strata_add_verification config)
  get_filename_component(name ${config} NAME_WE)
  add_test(NAME verify_${name} COMMAND ${Strata_PROGRAM} verify ${config} ${ARGN}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(verify_${name} PROPERTIES
    ENVIRONMENT "STRATA_PLUGIN_PATH=${CMAKE_BINARY_DIR}/lib/strata/plugins")
endfunction()

function(strata_package_plugins)
  cmake_parse_arguments(PARSE_ARGV 0 package "" "" "DEPENDS")
  string(REPLACE "_" "-" CPACK_PACKAGE_NAME strata-plugin-${PROJECT_NAME})
  set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
  if(NOT CPACK_PACKAGE_CONTACT)
    find_program(Strata_GIT git)
    mark_as_advanced(Strata_GIT)
    if(Strata_GIT)
      execute_process(COMMAND ${Strata_GIT} config user.name OUTPUT_VARIABLE name OUTPUT_STRIP_TRAILING_WHITESPACE)
      execute_process(COMMAND ${Strata_GIT} config user.email OUTPUT_VARIABLE address OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
    if(NOT name OR NOT address)
      set(name unknown)
      set(address unknown@localhost)
    endif()
    set(CPACK_PACKAGE_CONTACT "${name} <${address}>")
  endif()
  find_program(Strata_DPKG dpkg)
  find_program(Strata_RPMBUILD rpmbuild)
  mark_as_advanced(Strata_DPKG Strata_RPMBUILD)
  if(Strata_DPKG)
    set(CPACK_GENERATOR DEB)
  elseif(Strata_RPMBUILD)
    set(CPACK_GENERATOR RPM)
  else()
    set(CPACK_GENERATOR TGZ)
  endif()
  # Strata's package provides this name. It brings the libraries that plugins need.
  list(APPEND strata_debian strata-plugin-abi-${Strata_ABI_NUMBER} ${package_DEPENDS})
  list(APPEND strata_rpm "strata-plugin-abi = ${Strata_ABI_NUMBER}" ${package_DEPENDS})
  list(JOIN strata_debian ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  list(JOIN strata_rpm ", " CPACK_RPM_PACKAGE_REQUIRES)
  set(CPACK_RPM_PACKAGE_AUTOREQ OFF)
  set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
  set(CPACK_PACKAGING_INSTALL_PREFIX ${Strata_PREFIX})
  set(CPACK_STRIP_FILES ON)
  include(CPack)
endfunction()
