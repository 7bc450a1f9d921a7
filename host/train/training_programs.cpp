#include "train/training_programs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "compiler/graph/build_graph.hpp"
#include "compiler/parameters/step_end.hpp"
#include "compiler/program/instructions.hpp"
#include "train/health_rule.hpp"

namespace strata::host {
namespace {

std::optional<std::string> communication_fault(const Compiled& compiled, const CommunicatorLimits& limits) {
  const auto fault = find_communication_fault(rank_programs(compiled), limits);
  if (!fault) return std::nullopt;
  return compiled.programs.front().name + ": " + *fault;
}

/// Ops for which a device has only the reference kernel, and why the fast kernels do not take them.
using SlowOps = std::map<std::string, std::string>;

/// Adds the slow ops of `compiled`.
void find_slow_ops(const Compiled& compiled, const Device& device, SlowOps& slow) {
  for (const Program& program : compiled.programs) {
    const Coordinates first = program.mesh.coordinates(0);
    for (const Task& task : program.tasks) {
      for (const Instruction& instruction : task.instructions) {
        const auto* compute = instruction.as<Compute>();
        if (compute == nullptr || slow.contains(compute->op)) continue;
        const auto choice = device.kernel_choice(describe_instruction(program, instruction, first, 0));
        if (choice && choice->is_last_resort) slow[compute->op] = choice->refusal;
      }
    }
  }
}

std::vector<std::string> unread_parameters(const Graph& graph) {
  const std::set<Value> read = read_values(graph);
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.role == ParameterRole::constant || read.contains(parameter.value)) continue;
    names.push_back("'" + parameter.name + "'");
  }
  return names;
}

std::string text(const SlowOps& slow) {
  std::vector<std::string> words;
  for (const auto& [op, refusal] : slow) words.push_back(refusal.empty() ? op : op + " (" + refusal + ")");
  return join(words, ", ");
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

std::vector<std::string> find_remarks(const TrainingPrograms& programs, const Device& device) {
  std::vector<std::string> remarks;
  for (const std::string& strategy : programs.training.idle_strategies) {
    remarks.push_back(strategy + " has no effect on this run");
  }
  for (const int group : programs.training.groups.unused) {
    remarks.push_back("optimizer group " + std::to_string(group + 1) + " names no parameter of the model");
  }
  if (const auto unread = unread_parameters(programs.training.graph); !unread.empty()) {
    remarks.push_back("not trained, because no loss depends on them: " + join(unread, ", "));
  }
  std::set<std::string> notes = programs.training.notes;
  if (programs.evaluation) notes.insert(programs.evaluation->notes.begin(), programs.evaluation->notes.end());
  remarks.insert(remarks.end(), notes.begin(), notes.end());
  for (const std::string& note : device.notes()) remarks.push_back(device.description() + ": " + note);
  SlowOps slow;
  find_slow_ops(programs.training, device, slow);
  if (programs.evaluation) find_slow_ops(*programs.evaluation, device, slow);
  if (!slow.empty()) {
    remarks.push_back("no fast kernel for " + text(slow) + " on " + device.description() +
                      "; the slow reference kernels are used instead");
  }
  return remarks;
}

std::vector<GroupNorm> read_group_norms(Executor& executor, const NormGroupIndex& groups, const Reports& reports,
                                        double loss_scale, int replicas) {
  if (groups.names.empty()) return {};
  std::vector<double> squares(groups.names.size());
  executor.read(executor.program().reports.at(kGroupSquaresReport), squares.data());
  const double count = reports.at("count") / replicas;
  std::vector<GroupNorm> norms;
  for (std::size_t i = 0; i < squares.size(); ++i) {
    const double norm = count > 0 ? std::sqrt(squares[i] / replicas) / (count * loss_scale) : 0;
    norms.push_back({groups.names[i], norm});
  }
  return norms;
}

}  // namespace strata::host
