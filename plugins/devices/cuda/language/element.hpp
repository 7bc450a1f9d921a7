#pragma once

#include <cstdint>

/// \file
/// Element types as they are stored in memory. Plain C++, so that host code can use them too.

namespace strata::cuda {

/// bf16: the upper half of an f32.
struct BFloat16 {
  std::uint16_t bits;
};

/// f16: IEEE binary16.
struct Float16 {
  std::uint16_t bits;
};

namespace detail {
template <class T>
struct Wide {
  using type = float;
};
template <>
struct Wide<double> {
  using type = double;
};
}  // namespace detail

/// The type in which elements are computed and summed: double for double, float for the others.
template <class T>
using Accumulate = typename detail::Wide<T>::type;

}  // namespace strata::cuda
