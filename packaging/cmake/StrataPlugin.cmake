# strata_add_plugin(NAME <name> KIND <device|communicator|strategy|model|library|optimizer|dataset>
#                   SOURCES <file>... [LIBRARIES <target>...] [TEST_ONLY])
#
# Builds <kind>_<name>.so against Strata::sdk and installs it where the host looks for plugins, unless it is TEST_ONLY.
# The library exports its entry point and its record, and nothing else (StrataPlugin.map).
# The target is strata_<kind>_<name>. The same function serves this tree and plugins built outside of it. Before it is
# installed, STRATA_PLUGIN_PATH=<build tree>/lib/strata/plugins lets `strata` find it.

function(strata_add_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 plugin "TEST_ONLY" "NAME;KIND" "SOURCES;LIBRARIES")
  if(NOT plugin_NAME OR NOT plugin_SOURCES)
    message(FATAL_ERROR "strata_add_plugin: NAME and SOURCES are required")
  endif()
  if(plugin_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "strata_add_plugin(${plugin_NAME}): unknown arguments ${plugin_UNPARSED_ARGUMENTS}")
  endif()
  set(kinds device communicator strategy model library optimizer dataset)
  if(NOT plugin_KIND IN_LIST kinds)
    message(FATAL_ERROR "strata_add_plugin(${plugin_NAME}): KIND '${plugin_KIND}' is not one of ${kinds}")
  endif()

  include(GNUInstallDirs)
  set(directory ${CMAKE_INSTALL_LIBDIR}/strata/plugins)
  if(Strata_PLUGIN_DIRECTORY)
    set(directory ${Strata_PLUGIN_DIRECTORY})  # of the installed Strata
  endif()
  set(target strata_${plugin_KIND}_${plugin_NAME})
  add_library(${target} MODULE ${plugin_SOURCES})
  target_link_libraries(${target} PRIVATE Strata::sdk ${plugin_LIBRARIES})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  if(plugin_KIND STREQUAL "optimizer")
    # Then a rule of strata/update_kernel.hpp becomes vector instructions. No result depends on these options.
    target_compile_options(${target} PRIVATE -fno-math-errno -fno-trapping-math)
  endif()
  set(version_script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/StrataPlugin.map)
  target_link_options(${target} PRIVATE "LINKER:--version-script=${version_script}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${version_script})
  set_target_properties(${target} PROPERTIES
    PREFIX ""
    OUTPUT_NAME ${plugin_KIND}_${plugin_NAME}
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/strata/plugins
    INSTALL_RPATH "$ORIGIN/../..")
  if(plugin_TEST_ONLY)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY STRATA_PLUGIN_TARGETS ${target})
  install(TARGETS ${target} LIBRARY DESTINATION ${directory} COMPONENT plugins)
endfunction()
