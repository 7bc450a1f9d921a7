#pragma once

/// \file
/// The keywords and functions of CUDA C++. A CUDA compiler takes them from its own headers. Any other compiler takes
/// them from the emulator, which runs the same source on the processor.

#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#include "emulator/emulated_language.hpp"
#endif
