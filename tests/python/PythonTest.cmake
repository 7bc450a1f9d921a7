# strata_add_python_test(NAME <name> SCRIPT <file> [ARGUMENTS <argument>...] [COST <seconds>])
#
# A script that compares Strata with Python's libraries, as a test of ctest. It is skipped where the libraries cannot be
# installed, and it does not run with a sanitizer unless SANITIZED says so: Python is slow with one, and cannot load what
# has one.

set(STRATA_PYTHON_ENVIRONMENT ${PROJECT_SOURCE_DIR}/build/python)

function(strata_add_python_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "SANITIZED" "NAME;SCRIPT;COST" "ARGUMENTS")
  if(STRATA_SANITIZE MATCHES "thread" OR (STRATA_SANITIZE AND NOT test_SANITIZED))
    return()
  endif()
  add_test(NAME ${test_NAME}
    COMMAND sh ${PROJECT_SOURCE_DIR}/tests/python/run.sh ${STRATA_PYTHON_ENVIRONMENT}
      ${CMAKE_CURRENT_SOURCE_DIR}/${test_SCRIPT} ${test_ARGUMENTS})
  set_tests_properties(${test_NAME} PROPERTIES FIXTURES_REQUIRED python_environment SKIP_RETURN_CODE 77
    TIMEOUT ${STRATA_TEST_TIMEOUT} COST ${test_COST} ENVIRONMENT "${STRATA_TEST_ENVIRONMENT};PYTHONDONTWRITEBYTECODE=;PYTHONPYCACHEPREFIX=${STRATA_PYTHON_ENVIRONMENT}/bytecode")
endfunction()
