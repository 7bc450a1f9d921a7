#pragma once

#include <cstdint>

namespace strata::cuda::emulator {

/// Converts an IEEE binary16 to f32.
float half_to_float(std::uint16_t bits);

/// mma.m16n8k16 of a warp. `widen` converts an element to f32.
void matrix_multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const float (&c)[4],
                         float (*widen)(std::uint16_t));

/// ldmatrix of a warp: `count` pieces of 8 by 8.
void load_matrices(std::uint32_t* pieces, int count, const void* row, bool transposed);

}  // namespace strata::cuda::emulator
