#pragma once

#include <cstddef>

#include "strata/device.hpp"

namespace strata::devices {

/// An operand as values of a type.
template <class T>
const T* in(const KernelArguments& arguments, std::size_t operand) {
  return static_cast<const T*>(arguments.operands[operand]);
}
/// A result as values of a type.
template <class T>
T* out(const KernelArguments& arguments, std::size_t result) {
  return static_cast<T*>(arguments.results[result]);
}

}  // namespace strata::devices
