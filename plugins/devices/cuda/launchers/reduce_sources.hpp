#pragma once

#include <cstdint>
#include <span>

#include "language/element.hpp"
#include "strata/dtype.hpp"
#include "strata/layout.hpp"

namespace strata::cuda {

/// The largest number of sources of one launch.
inline constexpr std::size_t kMaxReducedSources = 256;

/// destination[i] = reduction over sources[j][i], in the order of sources. bf16 and f16 are reduced in f32. The
/// destination may be one of the sources. \throws VerificationError for no source, for more than kMaxReducedSources
/// sources, and for i8.
void launch_reduce(Stream stream, Reduction reduction, DType dtype, void* destination,
                   std::span<const void* const> sources, std::int64_t elements);

}  // namespace strata::cuda
