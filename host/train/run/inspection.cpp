#include "train/run/inspection.hpp"

namespace strata::host {

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
  return find_fault(inspection.programs, inspection.setup.make_world()->limits(), inspection.device_bytes);
}

}  // namespace strata::host
