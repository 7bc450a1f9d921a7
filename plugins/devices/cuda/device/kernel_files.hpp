#pragma once

#include <vector>

namespace strata::cuda {

/// One kernel of each source file of kernels. \see language/kernel_file.hpp
std::vector<const void*> kernels_of_files();

}  // namespace strata::cuda
