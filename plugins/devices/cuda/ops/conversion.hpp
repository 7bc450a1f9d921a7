#pragma once

#include <cstdint>

#include "language/stream.hpp"
#include "strata/dtype.hpp"

namespace strata::cuda {

/// Elements in memory and their type, which is real.
struct TypedElements {
  DType dtype = DType::f32;
  void* data = nullptr;
};
struct ConstTypedElements {
  DType dtype = DType::f32;
  const void* data = nullptr;
};

/// to = from, each number rounded to the nearest.
void launch_convert(Stream stream, std::int64_t size, ConstTypedElements from, TypedElements to);

/// to += from, rounded once.
void launch_accumulate(Stream stream, std::int64_t size, ConstTypedElements from, TypedElements to);

}  // namespace strata::cuda
