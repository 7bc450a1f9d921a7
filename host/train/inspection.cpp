#include "train/inspection.hpp"

#include <utility>

#include "compiler/program_check.hpp"

namespace strata::host {
namespace {

std::optional<std::string> communication_fault(const Compiled& compiled, const CommunicatorLimits& limits) {
  const auto fault = find_communication_fault(rank_programs(compiled), limits);
  if (!fault) return std::nullopt;
  return compiled.programs.front().name + ": " + *fault;
}

}  // namespace

Inspection inspect(const RunConfiguration& configuration, PluginRegistry& registry) {
  Inspection inspection;
  inspection.setup = prepare(configuration, registry);
  const RunSetup& setup = inspection.setup;
  const Corpus corpus = open_data(setup.configuration, setup.model->context());
  inspection.vocab = setup.vocab(corpus.vocabulary());
  inspection.device = setup.make_device(0, setup.mesh.rank_count());
  inspection.device_bytes = inspection.device->memory_bytes();
  inspection.programs = compile_training(setup, inspection.vocab, inspection.device.get());
  inspection.planned_peak_bytes = inspection.programs.planned_peak_bytes();
  return inspection;
}

std::optional<std::string> find_fault(const Inspection& inspection) {
  const CommunicatorLimits limits = inspection.setup.make_world()->limits();
  if (auto fault = communication_fault(inspection.programs.training, limits)) return fault;
  if (inspection.programs.evaluation) {
    if (auto fault = communication_fault(*inspection.programs.evaluation, limits)) return fault;
  }
  for (std::size_t rank = 0; rank < inspection.planned_peak_bytes.size(); ++rank) {
    const std::int64_t needed = inspection.planned_peak_bytes[rank];
    if (needed <= inspection.device_bytes) continue;
    return "rank " + std::to_string(rank) + " needs " + std::to_string(needed) + " bytes, its device has " +
           std::to_string(inspection.device_bytes) + "; a smaller batch.micro, a smaller model or more ranks need less";
  }
  return std::nullopt;
}

}  // namespace strata::host
