#include "factory.hpp"

#include <string>

#include "process.hpp"
#include "world.hpp"

namespace strata::mpi {
MpiCommunicatorFactory::MpiCommunicatorFactory()
    : schema_{communicators::timeout_option(), communicators::start_timeout_option()} {}

std::unique_ptr<World> MpiCommunicatorFactory::create(const Options& options, int rank_count) const {
  return std::make_unique<MpiWorld>(Process::get(), rank_count, communicators::read_timeouts(options));
}

}  // namespace strata::mpi
