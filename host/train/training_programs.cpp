#include "train/training_programs.hpp"

#include <algorithm>

namespace strata::host {

std::vector<std::int64_t> TrainingPrograms::planned_peak_bytes() const {
  std::vector<std::int64_t> bytes;
  for (int rank = 0; rank < training.mesh.rank_count(); ++rank) {
    bytes.push_back(std::max(training.plan(rank).arena_bytes, evaluation ? evaluation->plan(rank).arena_bytes : 0));
  }
  return bytes;
}

TrainingPrograms compile_training(const RunSetup& setup, std::int64_t vocab, const Device* device) {
  CompileRequest request = setup.request(GraphMode::training, vocab);
  request.device = device;
  TrainingPrograms programs;
  programs.training = setup.compile(request);
  if (setup.configuration.run.eval_every == 0) return programs;
  std::vector<SharedMemory> shared;
  for (std::size_t i = 0; i < programs.training.programs.size(); ++i) {
    shared.push_back(shared_memory(programs.training.programs[i], programs.training.plans[i]));
  }
  request.mode = GraphMode::evaluation;
  programs.evaluation = setup.compile(request, shared);
  return programs;
}

RankPrograms rank_programs(const Compiled& compiled) {
  RankPrograms ranks{compiled.mesh, {}};
  for (int rank = 0; rank < compiled.mesh.rank_count(); ++rank) ranks.programs.push_back(&compiled.program(rank));
  return ranks;
}

}  // namespace strata::host
