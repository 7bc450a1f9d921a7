# Warnings, sanitizers and OpenMP for everything that this tree builds.

# nvcc has other options, which the cuda device sets.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 wrongly warns of overlapping copies inside std::string's operator+ (GCC bug 105651).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  if(STRATA_SANITIZE)
    # In code that a sanitizer instruments, GCC wrongly finds uninitialised members of temporary variants.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Without optimization no loop gets the vector instructions that it asks for.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-pass-failed>)
endif()
if(STRATA_WARNINGS_AS_ERRORS)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(STRATA_SANITIZE)
  set(strata_sanitize_flags -fsanitize=${STRATA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(STRATA_SANITIZE MATCHES "address,undefined")
    # The checks of every dereferenced pointer take a third of the build's time, so they are off. The address sanitizer
    # finds null pointers and objects that are too small. Alignment and dynamic types are not checked.
    list(APPEND strata_sanitize_flags -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  add_compile_options(${strata_sanitize_flags})
  add_link_options(${strata_sanitize_flags})
else()
  # A plugin with an undefined symbol fails to link instead of failing to load. Sanitizers leave their symbols
  # undefined.
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>:LINKER:--no-undefined>
                   $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>:LINKER:--no-undefined>)
endif()

# Strata::openmp: link it where '#pragma omp' is used; without OpenMP the pragmas are ignored in silence.
add_library(strata_openmp INTERFACE)
add_library(Strata::openmp ALIAS strata_openmp)
if(STRATA_OPENMP)
  find_package(OpenMP COMPONENTS CXX)
  if(NOT OpenMP_CXX_FOUND)
    message(FATAL_ERROR "No OpenMP for this compiler: install its runtime (Clang: libomp-dev) or set STRATA_OPENMP=OFF")
  endif()
  target_link_libraries(strata_openmp INTERFACE OpenMP::OpenMP_CXX)
else()
  target_compile_options(strata_openmp INTERFACE -Wno-unknown-pragmas)
endif()
