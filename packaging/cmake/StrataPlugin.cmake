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
  # So that the host can tell a damaged file before the dynamic loader follows it.
  if(CMAKE_READELF AND CMAKE_OBJCOPY)
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
      COMMAND ${CMAKE_COMMAND} -D FILE=$<TARGET_FILE:${target}> -D READELF=${CMAKE_READELF} -D OBJCOPY=${CMAKE_OBJCOPY}
              -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/StrataChecksums.cmake)
  endif()
  if(plugin_TEST_ONLY)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY STRATA_PLUGIN_TARGETS ${target})
  install(TARGETS ${target} LIBRARY DESTINATION ${directory} COMPONENT plugins)
endfunction()

# strata_add_plugin_check(<target> [ARGUMENTS <argument>...])
#
# Adds the ctest check_<target>, which runs `strata plugins check` on a plugin of strata_add_plugin. ARGUMENTS are passed
# on, such as --set data.path=input.txt. The installed plugins, and those of this build tree, are around the checked one.

set(STRATA_PLUGIN_MODULE_FOLDER ${CMAKE_CURRENT_LIST_DIR})

function(strata_add_plugin_check target)
  cmake_parse_arguments(PARSE_ARGV 1 check "" "" "ARGUMENTS")
  if(check_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "strata_add_plugin_check(${target}): unknown arguments ${check_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "strata_add_plugin_check: there is no target '${target}'; strata_add_plugin makes "
                        "strata_<kind>_<name>")
  endif()
  if(TARGET strata)
    set(program $<TARGET_FILE:strata>)
  else()
    # This file is installed in <prefix>/<lib>/cmake/Strata, where <lib> may have two levels.
    set(folders ${STRATA_PLUGIN_MODULE_FOLDER}/../../../bin ${STRATA_PLUGIN_MODULE_FOLDER}/../../../../bin)
    find_program(Strata_PROGRAM strata HINTS ${folders})
    if(NOT Strata_PROGRAM)
      message(FATAL_ERROR "strata_add_plugin_check: the program 'strata' is not installed beside this Strata or in PATH")
    endif()
    set(program ${Strata_PROGRAM})
  endif()
  add_test(NAME check_${target} COMMAND ${program} plugins check $<TARGET_FILE:${target}> ${check_ARGUMENTS})
  set_tests_properties(check_${target} PROPERTIES
    ENVIRONMENT "STRATA_PLUGIN_PATH=${CMAKE_BINARY_DIR}/lib/strata/plugins")
endfunction()
