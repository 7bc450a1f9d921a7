#include "setup/training_programs.hpp"

#include <algorithm>
#include <utility>

#include "train/health_rule.hpp"

namespace strata::host {
namespace {

std::optional<std::string> communication_fault(const Compiled& compiled, const CommunicatorLimits& limits) {
  const auto fault = find_communication_fault(rank_programs(compiled), limits);
  if (!fault) return std::nullopt;
  return compiled.programs.front().name + ": " + *fault;
}

}  // namespace

std::vector<std::int64_t> TrainingPrograms::planned_peak_bytes() const {
  std::vector<std::int64_t> bytes;
  for (int rank = 0; rank < training.mesh.rank_count(); ++rank) {
    bytes.push_back(std::max(training.plan(rank).arena_bytes, evaluation ? evaluation->plan(rank).arena_bytes : 0));
  }
  return bytes;
}

std::vector<OffloadBytes> TrainingPrograms::planned_offload() const {
  std::vector<OffloadBytes> bytes;
  for (int rank = 0; rank < training.mesh.rank_count(); ++rank) {
    const OffloadBytes evaluated = evaluation ? evaluation->plan(rank).offload : OffloadBytes{};
    bytes.push_back(largest(training.plan(rank).offload, evaluated));
  }
  return bytes;
}

TrainingPrograms compile_training(const RunSetup& setup, const DimSizes& sizes, const Device* device,
                                  std::int64_t evaluation_batches) {
  CompileRequest request = setup.request(GraphMode::training, sizes);
  request.device = device;
  request.optimizer.guard = guard_for(setup.configuration.health);
  TrainingPrograms programs;
  programs.training = setup.compile(request);
  if (setup.configuration.run.eval_every == 0) return programs;
  programs.evaluation = compile_evaluation(setup, std::move(request), programs.training, evaluation_batches);
  return programs;
}

Compiled compile_evaluation(const RunSetup& setup, CompileRequest request, const Compiled& training,
                            std::int64_t batches) {
  request.mode = GraphMode::evaluation;
  // Where the definitions update the parameters, they also evaluate the averages.
  const bool reads_average =
      setup.configuration.optimizer.average.is_evaluated() && !request.optimizer.is_update_outside;
  if (reads_average) request.average_period = batches;
  return setup.compile(request, &training);
}

RankPrograms rank_programs(const Compiled& compiled) {
  RankPrograms ranks{compiled.mesh, {}};
  for (int rank = 0; rank < compiled.mesh.rank_count(); ++rank) ranks.programs.push_back(&compiled.program(rank));
  return ranks;
}

std::optional<std::string> find_fault(const TrainingPrograms& programs, const CommunicatorLimits& limits,
                                      std::int64_t device_bytes) {
  if (auto fault = communication_fault(programs.training, limits)) return fault;
  if (programs.evaluation) {
    if (auto fault = communication_fault(*programs.evaluation, limits)) return fault;
  }
  const std::vector<std::int64_t> planned = programs.planned_peak_bytes();
  for (std::size_t rank = 0; rank < planned.size(); ++rank) {
    const std::int64_t needed = planned[rank];
    if (needed <= device_bytes) continue;
    return "rank " + std::to_string(rank) + " needs " + std::to_string(needed) + " bytes, its device has " +
           std::to_string(device_bytes) + "; a smaller batch.micro, a smaller model or more ranks need less";
  }
  return std::nullopt;
}

bool copies_whole(CheckpointMode mode, std::int64_t every) { return mode == CheckpointMode::background && every > 0; }

std::optional<std::string> find_copy_fault(const std::vector<std::int64_t>& planned_peak_bytes,
                                           const std::vector<std::int64_t>& copy_bytes, const Device& device,
                                           std::int64_t device_bytes) {
  if (!device.is_host_memory()) return std::nullopt;
  for (std::size_t rank = 0; rank < planned_peak_bytes.size(); ++rank) {
    if (planned_peak_bytes[rank] + copy_bytes[rank] <= device_bytes) continue;
    return "rank " + std::to_string(rank) + " needs " + std::to_string(planned_peak_bytes[rank]) + " bytes and " +
           std::to_string(copy_bytes[rank]) + " for the copy of a checkpoint, its device has " +
           std::to_string(device_bytes) + "; run.checkpoint_mode = \"foreground\" needs no copy";
  }
  return std::nullopt;
}

}  // namespace strata::host
