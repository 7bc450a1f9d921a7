#pragma once

#include "language/dialect.hpp"

/// \file
/// The build includes this file in each source of kernels. It makes the source define a function that returns one of
/// its kernels. From that kernel the device finds the module that nvcc makes of the source, and with it all kernels of
/// the source. The build names the functions (StrataKernelFiles.cmake).

#ifdef STRATA_KERNEL_OF_FILE
namespace strata::cuda {
namespace {

__global__ void kernel_of_this_file() {}

}  // namespace

const void* STRATA_KERNEL_OF_FILE();
const void* STRATA_KERNEL_OF_FILE() { return reinterpret_cast<const void*>(&kernel_of_this_file); }

}  // namespace strata::cuda
#endif
