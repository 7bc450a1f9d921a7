# Installs the manual pages, which the program writes from the tables of --help, and the completion of shells.

set(STRATA_ZSH_DIRECTORY ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Folder of completions for zsh")

if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "Manual pages: not built; the program of another machine cannot run here")
elseif(NOT STRATA_SANITIZE)
  # The pages bear the date of the release, so that every build of it gives the same files.
  set(changelog ${CMAKE_SOURCE_DIR}/CHANGELOG.md)
  file(STRINGS ${changelog} release REGEX "^## \\[${PROJECT_VERSION}\\] - [0-9-]+$")
  if(NOT release MATCHES " - ([0-9-]+)$")
    message(FATAL_ERROR "${changelog} has no line '## [${PROJECT_VERSION}] - YEAR-MONTH-DAY'")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${changelog})

  set(manual ${CMAKE_BINARY_DIR}/manual)
  add_custom_command(OUTPUT ${manual}/strata.1
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual}
    COMMAND strata help --manual ${manual} --date ${CMAKE_MATCH_1}
    DEPENDS strata
    VERBATIM)
  add_custom_target(strata_manual ALL DEPENDS ${manual}/strata.1)
  foreach(section IN ITEMS 1 5)
    install(DIRECTORY ${manual}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT runtime
      FILES_MATCHING PATTERN "*.${section}")
  endforeach()
endif()

set(completion ${CMAKE_SOURCE_DIR}/packaging/completion)
install(FILES ${completion}/strata.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME strata COMPONENT runtime)
install(FILES ${completion}/strata.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
  COMPONENT runtime)
install(FILES ${completion}/_strata DESTINATION ${STRATA_ZSH_DIRECTORY} COMPONENT runtime)
