#pragma once

#include <string>
#include <string_view>

namespace strata::rendezvous {

/// The first host of a list in Slurm's notation. Example: "gpu[07-09,12],login" gives "gpu07". \throws
/// ConfigurationError if there is none.
[[nodiscard]] std::string first_slurm_host(std::string_view list);

}  // namespace strata::rendezvous
