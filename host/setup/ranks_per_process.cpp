#include "setup/ranks_per_process.hpp"

#include <cstdint>
#include <string>
#include <variant>

namespace strata::host {

int ranks_per_process(const RunConfiguration& configuration, int ranks) {
  const auto& options = configuration.communicator.options;
  const auto option = options.find(kRanksPerProcess);
  if (option == options.end()) return 1;
  const auto* count = std::get_if<std::int64_t>(&option->second);
  if (count == nullptr || *count < 1) return 1;
  if (ranks % *count != 0) {
    throw configuration.error(
        configuration.communicator.path + "." + kRanksPerProcess,
        "found " + std::to_string(*count) + "; accepted: a divisor of the mesh's " + std::to_string(ranks) + " ranks");
  }
  return static_cast<int>(*count);
}

}  // namespace strata::host
