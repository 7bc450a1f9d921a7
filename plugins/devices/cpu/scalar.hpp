#pragma once

#include "kernels/element.hpp"
#include "strata/half.hpp"

/// \file
/// Access to single elements, for code that is not worth vectorising.

namespace strata::cpu {

inline float widen(float value) { return value; }
inline float widen(BFloat16 value) { return from_bf16(value.bits); }
inline float widen(Float16 value) { return from_f16(value.bits); }

inline void assign(float& to, float value) { to = value; }
inline void assign(BFloat16& to, float value) { to.bits = to_bf16(value); }
inline void assign(Float16& to, float value) { to.bits = to_f16(value); }

}  // namespace strata::cpu
