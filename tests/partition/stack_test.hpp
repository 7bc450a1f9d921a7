#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "build_paths.hpp"
#include "compiler/check/program_check.hpp"
#include "compiler/compile.hpp"
#include "loading/plugin_registry.hpp"
#include "strata/registration.hpp"
#include "verify/random_inputs.hpp"
#include "verify/stack_run.hpp"

namespace strata::testing {

/// Runs stacks in f64 on the reference device over the local communicator.
class StackRunner {
 public:
  StackRunner() : plugins_({plugin_folder()}) { register_core(registry_, kernels_); }

  [[nodiscard]] host::CompileRequest request(std::shared_ptr<const Model> model, std::int64_t global_batch,
                                             std::int64_t micro_batch) {
    host::CompileRequest request;
    request.sizes = model->sizes();
    request.model = std::move(model);
    request.registry = &registry_;
    request.float_type = DType::f64;
    request.global_batch = global_batch;
    request.micro_batch = micro_batch;
    request.optimizer = {.groups = {adamw()}, .clip = 0.5};
    request.device = device().get();
    return request;
  }

  /// With the inputs of the dataset `text`.
  [[nodiscard]] host::StackResult run(const host::Compiled& compiled) {
    const auto& text = plugins_.load<DatasetFactory>("text");
    return run(compiled, text.inputs(Options(text.options(), {{"path", std::string("none")}})));
  }

  [[nodiscard]] host::StackResult run(const host::Compiled& compiled, std::vector<DatasetInput> data) {
    const auto world = plugins_.load<CommunicatorFactory>("local").create(
        Options(plugins_.load<CommunicatorFactory>("local").options(), {}), compiled.mesh.rank_count());
    host::RandomInputs inputs(kSeed, std::move(data), compiled.graph.sizes);
    return host::run_stack(
        compiled, *world, [this](int) { return make_device(); }, {kSeed, 1e-2, 3}, inputs);
  }

  [[nodiscard]] const OpRegistry& registry() const { return registry_; }
  /// Adds ops and their kernels. Before request().
  [[nodiscard]] Registration registration() { return {registry_, kernels_, "the test"}; }
  /// A strategy of this build.
  [[nodiscard]] host::NamedStrategy strategy(const std::string& name,
                                             const std::map<std::string, OptionValue>& options) {
    const auto& factory = plugins_.load<StrategyFactory>(name);
    return {name, factory.create(Options(factory.options(), options))};
  }

 private:
  static constexpr std::uint64_t kSeed = 7;

  [[nodiscard]] host::OptimizerGroup adamw() {
    const auto& factory = plugins_.load<OptimizerFactory>("adamw");
    return {.origin = {PluginKind::optimizer, -1, "optimizer 'adamw'"},
            .optimizer = factory.create(Options(factory.options(), {})),
            .parameters = {"*"},
            .weight_decay = 0.1};
  }
  [[nodiscard]] std::shared_ptr<Device> make_device() {
    const std::lock_guard lock(mutex_);
    const auto& factory = plugins_.load<DeviceFactory>("reference");
    return factory.create(Options(factory.options(), {}), {.kernels = &kernels_});
  }
  std::shared_ptr<Device> device() {
    if (!device_) device_ = make_device();
    return device_;
  }

  host::PluginRegistry plugins_;
  OpRegistry registry_;
  KernelRegistry kernels_;
  std::mutex mutex_;
  std::shared_ptr<Device> device_;
};

/// The fault in the communication of all ranks' programs, or empty. Assumes that a message may need its receive to make
/// progress.
inline std::optional<std::string> communication_fault(const host::Compiled& compiled) {
  host::RankPrograms ranks{compiled.mesh, {}};
  for (int rank = 0; rank < compiled.mesh.rank_count(); ++rank) ranks.programs.push_back(&compiled.program(rank));
  return host::find_communication_fault(ranks, {});
}

}  // namespace strata::testing
