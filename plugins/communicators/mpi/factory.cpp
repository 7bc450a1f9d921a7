#include "factory.hpp"

#include <string>

#include "process.hpp"
#include "world.hpp"

namespace strata::mpi {
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

MpiCommunicatorFactory::MpiCommunicatorFactory()
    : schema_{seconds("timeout", "Seconds that a rank waits for its peers in a communication before it gives up."),
              seconds("start_timeout", "Seconds in which the processes of all ranks must have come together.")} {}

std::unique_ptr<World> MpiCommunicatorFactory::create(const Options& options, int rank_count) const {
  return std::make_unique<MpiWorld>(Process::get(), rank_count,
                                    Timeouts{options.number("timeout"), options.number("start_timeout")});
}

}  // namespace strata::mpi
