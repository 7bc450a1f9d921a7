# Compiles through ccache where it is installed, unless the user names launchers of their own or sets STRATA_CCACHE=OFF.

option(STRATA_CCACHE "Compile through ccache where it is installed" ON)

if(STRATA_CCACHE)
  find_program(STRATA_CCACHE_PROGRAM ccache)
  mark_as_advanced(STRATA_CCACHE_PROGRAM)
  foreach(language IN ITEMS CXX CUDA)
    if(STRATA_CCACHE_PROGRAM AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${STRATA_CCACHE_PROGRAM})
    endif()
  endforeach()
endif()
