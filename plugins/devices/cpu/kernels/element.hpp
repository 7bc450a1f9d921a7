#pragma once

#include <cstdint>

namespace strata::cpu {

/// The bits of a bf16 number, which are the upper half of an f32.
struct BFloat16 {
  std::uint16_t bits;
};

/// The bits of an IEEE binary16 number.
struct Float16 {
  std::uint16_t bits;
};

/// The types of elements in memory. All kernels compute in f32.
enum class Element { f32, bf16, f16 };

/// A family of kernels, once for each type of elements.
template <template <class> class Kernels>
struct ByElement {
  Kernels<float> f32;
  Kernels<BFloat16> bf16;
  Kernels<Float16> f16;

  template <class T>
  const Kernels<T>& of() const {
    return get(static_cast<const T*>(nullptr));
  }

 private:
  const Kernels<float>& get(const float*) const { return f32; }
  const Kernels<BFloat16>& get(const BFloat16*) const { return bf16; }
  const Kernels<Float16>& get(const Float16*) const { return f16; }
};

}  // namespace strata::cpu
