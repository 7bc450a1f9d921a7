#include "factory.hpp"

#include <string>

#include "strata/error.hpp"
#include "world.hpp"

namespace strata::gloo {
GlooCommunicatorFactory::GlooCommunicatorFactory()
    : schema_{communicators::timeout_option(),
              communicators::start_timeout_option(),
              {.name = "interface",
               .type = OptionType::word,
               .default_value = std::string(""),
               .documentation = "Network interface of this machine, such as eth0, or one of its addresses, through "
                                "which ranks send their data. Empty: the one that leads to MASTER_ADDR.",
               .minimum = {},
               .maximum = {},
               .choices = {},
               .may_differ = true},
              {.name = "ranks_per_process",
               .type = OptionType::integer,
               .default_value = std::int64_t{1},
               .documentation = "Ranks that each process runs, each on a thread of its own. They exchange data through "
                                "memory.",
               .minimum = 1,
               .maximum = 1024,
               .choices = {}}} {}

std::unique_ptr<World> GlooCommunicatorFactory::create(const Options& options, int rank_count) const {
  const auto environment = rendezvous::read_process_environment(rendezvous::environment_variable);
  const auto per_process = static_cast<int>(options.integer("ranks_per_process"));
  if (rank_count % per_process != 0) {
    throw OptionError("ranks_per_process", "found " + std::to_string(per_process) +
                                               "; accepted: a divisor of the mesh's " + std::to_string(rank_count) +
                                               " ranks");
  }
  if (environment && environment->rank_count != rank_count / per_process) {
    const std::string found = "found " + std::to_string(environment->rank_count) + " processes; accepted: ";
    if (per_process == 1) {
      throw ConfigurationError(found + "one for each of the mesh's " + std::to_string(rank_count) + " ranks");
    }
    throw ConfigurationError(found + std::to_string(rank_count / per_process) + ", each with " +
                             std::to_string(per_process) + " (ranks_per_process) of the mesh's " +
                             std::to_string(rank_count) + " ranks");
  }
  return std::make_unique<GlooWorld>(
      environment, rank_count, Settings{communicators::read_timeouts(options), options.word("interface"), per_process});
}

}  // namespace strata::gloo
