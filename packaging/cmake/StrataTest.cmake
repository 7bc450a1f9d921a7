# strata_add_test([ONCE | UNSANITIZED] NAME <name> SOURCES <file>... [LIBRARIES <target>...] [DEPENDS <target>...]
#                 [DEFINITIONS <definition>...] [THREADS <filter>] [COST <seconds>] [SHARDS <count>] [TIMEOUT <seconds>])
#
# A GoogleTest program, registered with ctest as one test, or as SHARDS tests that each run a part of it, so that a long
# one keeps all cores busy. It finds what it loads and starts, which DEPENDS names, with the functions of
# tests/build_paths.hpp. THREADS: these of its tests are about threads that work together, as GoogleTest's filter; the
# thread sanitizer runs them and no others. COST: about how many seconds one of the ctest tests takes in the build in
# which it takes longest; the longest begin first. ONCE: the results do not depend on how the code is optimised, so
# STRATA_TESTS_ONCE leaves the test out of a build without sanitizer. UNSANITIZED: sanitized builds leave the test out,
# in which it would take minutes.
#
# One program for an area of tests, since what its files include and instantiate is compiled once for all of them.

# Seconds that a test may take, and what the sanitizers are told; for tests that are registered by hand as well. Without
# XDG_DATA_HOME, plugins that the user has installed would take the place of those that are tested. Five frames of an
# allocation's stack are enough to find it, and cost less than thirty. Threads of OpenMP spin 300,000 times before they
# sleep, and take the processors from the ranks for which they wait; `strata` sets the same number for itself.
set(STRATA_TEST_TIMEOUT 600)
if(STRATA_SANITIZE)
  set(STRATA_TEST_TIMEOUT 1800)
endif()
set(STRATA_TEST_ENVIRONMENT
  GOMP_SPINCOUNT=1000
  XDG_DATA_HOME=${CMAKE_BINARY_DIR}/no-user-data
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${CMAKE_SOURCE_DIR}/tests/thread_sanitizer.supp
  ASAN_OPTIONS=intercept_tls_get_addr=0:malloc_context_size=5
  UBSAN_OPTIONS=print_stacktrace=1)

# For programs that compile much faster so, and are not worth more. Debian's flags fortify, which needs optimisation.
set(STRATA_UNOPTIMISED -O0 -U_FORTIFY_SOURCE)

# LLVM's linker takes a quarter of the usual one's time for the programs of tests, each of which has the whole engine.
find_program(STRATA_TEST_LINKER ld.lld)

option(STRATA_TESTS_ONCE "Without sanitizer, leave out tests of which one run is enough, because a sanitized build runs them" OFF)

function(strata_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "ONCE;UNSANITIZED" "NAME;TIMEOUT;COST;SHARDS;THREADS" "SOURCES;LIBRARIES;DEPENDS;DEFINITIONS")
  if(NOT test_NAME OR NOT test_SOURCES)
    message(FATAL_ERROR "strata_add_test: NAME and SOURCES are required")
  endif()
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "strata_add_test(${test_NAME}): unknown arguments ${test_UNPARSED_ARGUMENTS}")
  endif()
  if((NOT test_THREADS AND STRATA_SANITIZE MATCHES "thread") OR (test_UNSANITIZED AND STRATA_SANITIZE) OR
     (test_ONCE AND STRATA_TESTS_ONCE AND NOT STRATA_SANITIZE))
    return()
  endif()
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT ${STRATA_TEST_TIMEOUT})
  endif()

  find_package(GTest REQUIRED)
  set(target test_${test_NAME})
  add_executable(${target} ${test_SOURCES})
  target_link_libraries(${target} PRIVATE ${test_LIBRARIES} strata_build_paths Strata::sdk GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE ${test_DEFINITIONS})
  if(test_DEPENDS)
    add_dependencies(${target} ${test_DEPENDS})
  endif()
  target_link_options(${target} PRIVATE $<$<BOOL:${STRATA_TEST_LINKER}>:-fuse-ld=lld>)
  # The code under test is optimised and checked for undefined behaviour. The test itself compiles twice as fast without
  # either.
  target_compile_options(${target} PRIVATE ${STRATA_UNOPTIMISED})
  if(STRATA_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD_BATCH_SIZE 0 RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  set(arguments "")
  if(STRATA_SANITIZE MATCHES "thread")
    set(arguments --gtest_filter=${test_THREADS})
  endif()
  if(NOT test_COST)
    set(test_COST 0)
  endif()
  if(NOT test_SHARDS)
    set(test_SHARDS 1)
  endif()
  math(EXPR last_shard "${test_SHARDS} - 1")
  foreach(shard RANGE ${last_shard})
    set(name ${test_NAME})
    if(test_SHARDS GREATER 1)
      math(EXPR number "${shard} + 1")
      string(APPEND name _${number}_of_${test_SHARDS})
    endif()
    add_test(NAME ${name} COMMAND ${target} ${arguments} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${test_TIMEOUT} COST ${test_COST}
      # A filter that matches no test is a mistake.
      FAIL_REGULAR_EXPRESSION "Running 0 tests"
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${test_SHARDS};GTEST_SHARD_INDEX=${shard};${STRATA_TEST_ENVIRONMENT}")
  endforeach()
endfunction()
