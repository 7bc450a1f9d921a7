# Compiles through ccache where it is installed, unless the user names launchers of their own or sets STRATA_CCACHE=OFF.
# Checkouts in several folders share what one of them has compiled.

option(STRATA_CCACHE "Compile through ccache where it is installed" ON)

if(STRATA_CCACHE)
  find_program(STRATA_CCACHE_PROGRAM ccache)
  mark_as_advanced(STRATA_CCACHE_PROGRAM)
  foreach(language IN ITEMS CXX CUDA)
    if(STRATA_CCACHE_PROGRAM AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      # ccache takes paths below this folder for relative ones.
      set(CMAKE_${language}_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${STRATA_CCACHE_PROGRAM})
    endif()
  endforeach()
endif()

# Tests contain the names of their files (__FILE__), which begin at the root of the source tree. Packages choose how their
# debug information names files: rpmbuild, for one, looks for whole paths in it.
if(BUILD_TESTING AND NOT CMAKE_CXX_FLAGS MATCHES "-ffile-prefix-map=")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>")
endif()
