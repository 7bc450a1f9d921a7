# strata_list_kernel_files(<variable> <source>...)
#
# Writes a source that returns one kernel of each source of kernels (kernels_of_files() of device/runtime.hpp), and stores its path in
# the variable. The sources must include language/kernel_file.hpp first. Call the function in the folder of their
# target.

function(strata_list_kernel_files variable)
  set(declarations "")
  set(calls "")
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME_WE)
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS STRATA_KERNEL_OF_FILE=kernel_of_${name})
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
      -include ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/language/kernel_file.hpp)
    string(APPEND declarations "const void* kernel_of_${name}();\n")
    string(APPEND calls "kernel_of_${name}(), ")
  endforeach()
  set(path ${CMAKE_CURRENT_BINARY_DIR}/kernel_files.cpp)
  file(CONFIGURE OUTPUT ${path} CONTENT
"#include \"device/runtime.hpp\"

namespace strata::cuda {

${declarations}
std::vector<const void*> kernels_of_files() { return {${calls}}; }

}  // namespace strata::cuda
")
  set(${variable} ${path} PARENT_SCOPE)
endfunction()
