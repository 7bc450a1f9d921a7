# strata_add_test(NAME <name> SOURCES <file>... [LIBRARIES <target>...] [DEPENDS <target>...]
#                 [DEFINITIONS <definition>...] [THREADS <filter>] [COST <seconds>] [TIMEOUT <seconds>])
#
# A GoogleTest program, registered with ctest as one test. It finds what it loads and starts, which DEPENDS names,
# through STRATA_BUILD_DIRECTORY, a definition that names the build tree. THREADS: these of its tests are about threads
# that work together, as GoogleTest's filter; the thread sanitizer runs them and no others. COST: about how long it
# takes; the longest begin first.
#
# One program for an area of tests, since what its files include and instantiate is compiled once for all of them.

function(strata_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME;TIMEOUT;COST;THREADS" "SOURCES;LIBRARIES;DEPENDS;DEFINITIONS")
  if(NOT test_NAME OR NOT test_SOURCES)
    message(FATAL_ERROR "strata_add_test: NAME and SOURCES are required")
  endif()
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "strata_add_test(${test_NAME}): unknown arguments ${test_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT test_THREADS AND STRATA_SANITIZE MATCHES "thread")
    return()
  endif()
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 600)
    if(STRATA_SANITIZE)
      set(test_TIMEOUT 1800)
    endif()
  endif()

  find_package(GTest REQUIRED)
  set(target test_${test_NAME})
  add_executable(${target} ${test_SOURCES})
  target_link_libraries(${target} PRIVATE ${test_LIBRARIES} Strata::sdk GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE STRATA_BUILD_DIRECTORY="${CMAKE_BINARY_DIR}"
                                               STRATA_SOURCE_DIRECTORY="${CMAKE_SOURCE_DIR}" ${test_DEFINITIONS})
  if(test_DEPENDS)
    add_dependencies(${target} ${test_DEPENDS})
  endif()
  # What a test calls is optimised; the test itself takes half as long to compile without. Undefined
  # behaviour is looked for in what tests call.
  target_compile_options(${target} PRIVATE -O0)
  if(STRATA_SANITIZE MATCHES "undefined")
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD_BATCH_SIZE 0 RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  set(arguments "")
  if(STRATA_SANITIZE MATCHES "thread")
    set(arguments --gtest_filter=${test_THREADS})
  endif()
  add_test(NAME ${test_NAME} COMMAND ${target} ${arguments} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  if(NOT test_COST)
    set(test_COST 0)
  endif()
  set_tests_properties(${test_NAME} PROPERTIES TIMEOUT ${test_TIMEOUT} COST ${test_COST}
    # A filter that fits no test is a mistake.
    FAIL_REGULAR_EXPRESSION "Running 0 tests"
    ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1;ASAN_OPTIONS=intercept_tls_get_addr=0;UBSAN_OPTIONS=print_stacktrace=1")
endfunction()
