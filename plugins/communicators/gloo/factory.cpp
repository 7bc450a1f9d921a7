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
               .choices = {}}} {}

std::unique_ptr<World> GlooCommunicatorFactory::create(const Options& options, int rank_count) const {
  const auto environment = rendezvous::read_process_environment(rendezvous::environment_variable);
  if (environment && environment->rank_count != rank_count) {
    throw ConfigurationError("found " + std::to_string(environment->rank_count) +
                             " processes; accepted: one for each of the mesh's " + std::to_string(rank_count) +
                             " ranks");
  }
  return std::make_unique<GlooWorld>(environment, rank_count,
                                     Settings{communicators::read_timeouts(options), options.word("interface")});
}

}  // namespace strata::gloo
