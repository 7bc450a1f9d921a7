#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/communicator.hpp"

namespace strata::host {

struct Compiled;
struct RunSetup;
class DataSource;

/// What all ranks of a run must have alike: keys, such as "optimizer.lr", and their values as text.
using RankTerms = std::vector<std::pair<std::string, std::string>>;

/// The configuration with all options, except for those that may differ (OptionSpecification::may_differ), the plugins
/// with their versions and builds, and the properties of this program and its machine on which results depend.
[[nodiscard]] RankTerms setup_terms(const RunSetup& setup);
/// The content of the data, whatever its path is.
[[nodiscard]] RankTerms data_terms(const DataSource& source);
/// A digest of the programs of all ranks. `name`: says which program it is.
[[nodiscard]] std::pair<std::string, std::string> program_term(const std::string& name, const Compiled& compiled);

/// A world whose ranks compare the result of `terms` when they connect, over whatever communicator joins them.
/// connect() throws a ConfigurationError on all ranks if some rank has other terms. If all ranks are in this process,
/// they have one setup, so the result is `world` itself, and `terms` is not called.
[[nodiscard]] std::unique_ptr<World> joined_world(std::unique_ptr<World> world,
                                                  const std::function<RankTerms()>& terms);

/// Runs `work` of a process whose ranks have not connected. If it throws, `world` is destroyed while the exception is
/// handled, so that the communicator can tell the other processes why this one leaves.
template <class Work>
auto before_connecting(std::unique_ptr<World>& world, const Work& work) {
  try {
    return work();
  } catch (...) {
    world.reset();
    throw;
  }
}

}  // namespace strata::host
