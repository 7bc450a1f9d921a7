# strata_register_sources(<target> NAMESPACE <namespace> FUNCTION <name> FILES <file>...)
#
# Adds to the target a generated source that defines `void <namespace>::<name>(strata::Registration&)`, which calls
# `register_<file name without extension>` of every file. So a folder of ops or kernels needs no list of its own: to add
# one, add a file that defines its function.

function(strata_register_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 register "" "NAMESPACE;FUNCTION" "FILES")
  set(declarations "")
  set(calls "")
  foreach(file IN LISTS register_FILES)
    get_filename_component(name ${file} NAME_WE)
    string(APPEND declarations "void register_${name}(Registration& registration);\n")
    string(APPEND calls "  register_${name}(registration);\n")
  endforeach()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target}_${register_FUNCTION}.cpp)
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
#include "strata/registration.hpp"

namespace @register_NAMESPACE@ {

using strata::Registration;

@declarations@
void @register_FUNCTION@(Registration& registration);

void @register_FUNCTION@(Registration& registration) {
@calls@}

}
]])
  target_sources(${target} PRIVATE ${generated})
endfunction()
