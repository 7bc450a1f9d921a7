#pragma once

#include <string>
#include <vector>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// The texts of all ranks, by rank. Every rank makes the call. The texts travel over the communicator.
[[nodiscard]] std::vector<std::string> gather_texts(Communicator& communicator, Device& device,
                                                    const std::string& text);

}  // namespace strata::host
