#include "factory.hpp"

#include <string>

#include "strata/error.hpp"
#include "world.hpp"

namespace strata::gloo {
namespace {

OptionSpecification seconds(const std::string& name, const std::string& documentation) {
  return {.name = name,
          .type = OptionType::number,
          .default_value = 300.0,
          .documentation = documentation,
          .minimum = 0.01,
          .maximum = 86400.0,
          .choices = {}};
}

}  // namespace

GlooCommunicatorFactory::GlooCommunicatorFactory()
    : schema_{seconds("timeout", "Seconds that a rank waits for its peers in a communication before it gives up."),
              seconds("start_timeout", "Seconds in which the processes of all ranks must have come together."),
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
  return std::make_unique<GlooWorld>(
      environment, rank_count,
      Settings{options.number("timeout"), options.number("start_timeout"), options.word("interface")});
}

}  // namespace strata::gloo
