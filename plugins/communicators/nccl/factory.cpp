#include "factory.hpp"

#include <string>

#include "cuda_gpu_runtime.hpp"
#include "library_environment.hpp"
#include "loaded_nccl.hpp"
#include "strata/error.hpp"
#include "world.hpp"

namespace strata::nccl {
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

NcclCommunicatorFactory::NcclCommunicatorFactory()
    : schema_{seconds("timeout", "Seconds that a rank waits for its peers in a communication before it gives up."),
              seconds("start_timeout", "Seconds in which the processes of all ranks must have come together."),
              {.name = "library",
               .type = OptionType::word,
               .default_value = std::string("libnccl.so.2"),
               .documentation = "NCCL's shared library: a name that the loader finds, or a path.",
               .minimum = {},
               .maximum = {},
               .choices = {}}} {}

std::unique_ptr<World> NcclCommunicatorFactory::create(const Options& options, int rank_count) const {
  // The ranks' threads start later, so it is safe to change the environment here.
  set_library_environment();
  const Timeouts timeouts{options.number("timeout"), options.number("start_timeout")};
  LoadBackend load = [library = options.word("library")] {
    return Backend{std::make_shared<LoadedNccl>(library), std::make_shared<CudaGpuRuntime>(), "cuda"};
  };
  const auto environment = rendezvous::read_process_environment(rendezvous::environment_variable);
  if (!environment) return std::make_unique<NcclWorld>(std::move(load), rank_count, timeouts);
  if (environment->rank_count != rank_count) {
    throw ConfigurationError("found " + std::to_string(environment->rank_count) +
                             " processes; accepted: one for each of the mesh's " + std::to_string(rank_count) +
                             " ranks, or none but this one");
  }
  return std::make_unique<NcclWorld>(std::move(load), *environment, timeouts);
}

}  // namespace strata::nccl
