#pragma once

#include <string>
#include <string_view>

namespace strata::rendezvous {

/// The first host of a list as Slurm writes it: "gpu[07-09,12],login" begins with "gpu07". \throws ConfigurationError
/// if there is none.
[[nodiscard]] std::string first_slurm_host(std::string_view list);

}  // namespace strata::rendezvous
