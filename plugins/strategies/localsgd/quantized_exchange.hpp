#pragma once

#include "settings.hpp"
#include "strata/lowering.hpp"

namespace localsgd {

/// The exchange of outer gradients as integers with one scale per block. Empty for collectives that are none. Every
/// replica quantises its own gradient once, all gather the integers of all, and add them up in f32. So all have the
/// same sum, and no sum is quantised again. A replica sends (n - 1) times its integers, which is less than an
/// all_reduce in f32 for up to 8 replicas with 8 bits, and for up to 16 with 4 bits.
///
/// The error of a quantisation is not kept for the next one: replicas continue from the agreed values, and Douillard et
/// al. (2025) found 4 bits without error feedback to train as well as f32.
[[nodiscard]] strata::Conversion quantized_exchange(const Settings& settings,
                                                    const strata::PlannedCollective& collective);

}  // namespace localsgd
