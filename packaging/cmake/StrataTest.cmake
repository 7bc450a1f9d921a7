# strata_add_test(NAME <name> SOURCES <file>... [LIBRARIES <target>...] [LABELS <label>...] [TIMEOUT <seconds>])
#                 [ONE_THREAD]
#
# A GoogleTest program, registered with ctest as one test. It is built after the plugins and the command line,
# and finds them through STRATA_BUILD_DIRECTORY, a definition that names the build tree. ONE_THREAD: it never has a
# second thread, so that the thread sanitizer has nothing to find and leaves it out.

function(strata_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "ONE_THREAD" "NAME;TIMEOUT" "SOURCES;LIBRARIES;LABELS")
  if(NOT test_NAME OR NOT test_SOURCES)
    message(FATAL_ERROR "strata_add_test: NAME and SOURCES are required")
  endif()
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "strata_add_test(${test_NAME}): unknown arguments ${test_UNPARSED_ARGUMENTS}")
  endif()
  if(test_ONE_THREAD AND STRATA_SANITIZE MATCHES "thread")
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
                                               STRATA_SOURCE_DIRECTORY="${CMAKE_SOURCE_DIR}")
  if(STRATA_SANITIZE)
    # What a test calls is optimised; the test itself takes half as long to compile without.
    target_compile_options(${target} PRIVATE -O0)
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  add_test(NAME ${test_NAME} COMMAND ${target} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set_tests_properties(${test_NAME} PROPERTIES TIMEOUT ${test_TIMEOUT} LABELS "${test_LABELS}"
    ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1;ASAN_OPTIONS=detect_stack_use_after_return=1:intercept_tls_get_addr=0;UBSAN_OPTIONS=print_stacktrace=1")
endfunction()
