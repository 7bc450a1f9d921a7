#include "strata/plugin.hpp"

#include <memory>
#include <string>

#include "cuda_gpu_runtime.hpp"
#include "loaded_nccl.hpp"
#include "strata/communicator.hpp"
#include "strata/error.hpp"
#include "world.hpp"

namespace strata::nccl {
namespace {

class NcclCommunicatorFactory final : public CommunicatorFactory {
 public:
  NcclCommunicatorFactory();
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override;

 private:
  OptionSchema schema_;
};

NcclCommunicatorFactory::NcclCommunicatorFactory()
    : schema_{communicators::timeout_option(),
              communicators::start_timeout_option(),
              {.name = "library",
               .type = OptionType::word,
               .default_value = std::string("libnccl.so.2"),
               .documentation = "NCCL's shared library: a name that the loader finds, or a path.",
               .minimum = {},
               .maximum = {},
               .choices = {},
               .may_differ = true}} {}

std::unique_ptr<World> NcclCommunicatorFactory::create(const Options& options, int rank_count) const {
  // The ranks' threads start later, so it is safe to change the environment here.
  set_library_environment();
  const Timeouts timeouts = communicators::read_timeouts(options);
  BackendLoader loader{"cuda", [library = options.word("library")] {
                         return Backend{std::make_shared<LoadedNccl>(library), std::make_shared<CudaGpuRuntime>()};
                       }};
  const auto environment = rendezvous::read_process_environment(rendezvous::environment_variable);
  if (!environment) return std::make_unique<NcclWorld>(std::move(loader), rank_count, timeouts);
  if (environment->rank_count != rank_count) {
    throw ConfigurationError("found " + std::to_string(environment->rank_count) +
                             " processes; accepted: one for each of the mesh's " + std::to_string(rank_count) +
                             " ranks, or none but this one");
  }
  return std::make_unique<NcclWorld>(std::move(loader), *environment, timeouts);
}

}  // namespace
}  // namespace strata::nccl

STRATA_PLUGIN(communicator, "nccl", STRATA_VERSION, "Apache-2.0",
              "GPUs of one or more machines over NCCL; ranks are threads of one process or processes.",
              strata::nccl::NcclCommunicatorFactory);
