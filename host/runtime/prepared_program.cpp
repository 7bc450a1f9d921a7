#include "runtime/prepared_program.hpp"

#include <algorithm>
#include <utility>

#include "compiler/check/communication_trace.hpp"
#include "compiler/program/op_instance.hpp"
#include "runtime/traffic.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

class Preparation {
 public:
  Preparation(const Program& program, int rank, std::uint64_t seed, Device& device, Communicator& communicator)
      : program_(program),
        rank_(rank),
        seed_(seed),
        device_(device),
        coordinates_(program.mesh.coordinates(rank)),
        communicator_(communicator) {}

  PreparedProgram run() {
    make_groups();
    for (const Task& task : program_.tasks) {
      std::vector<PreparedInstruction>& instructions = prepared_.tasks.emplace_back();
      instructions.reserve(task.instructions.size());
      for (const Instruction& instruction : task.instructions) instructions.push_back(prepare(instruction));
    }
    return std::move(prepared_);
  }

 private:
  /// In the order of the axes' names, so that ranks with different programs make the groups they share in one order.
  void make_groups() {
    for (const Task& task : program_.tasks) {
      for (const Instruction& instruction : task.instructions) {
        if (instruction.kind == InstructionKind::collective) {
          groups_.try_emplace(counterparts_of(program_, instruction), -1);
        }
      }
    }
    for (auto& [with, group] : groups_) group = communicator_.create_group(ranks_of(with, program_.mesh, rank_));
  }

  PreparedInstruction prepare(const Instruction& instruction) {
    PreparedInstruction prepared;
    prepared.instruction = &instruction;
    switch (instruction.kind) {
      case InstructionKind::load:
        prepare_load(prepared);
        break;
      case InstructionKind::compute:
        prepare_compute(prepared);
        break;
      case InstructionKind::copy:
        prepare_copy(prepared);
        break;
      case InstructionKind::collective:
        prepared.group = groups_.at(counterparts_of(program_, instruction));
        prepared.group_size = program_.group_size(instruction);
        prepared.traffic = &prepared_.traffic[traffic_key(instruction)];
        break;
      case InstructionKind::send:
        prepared.traffic = &prepared_.traffic[traffic_key(instruction)];
        prepared.peer = peer(instruction);
        break;
      case InstructionKind::receive:
        prepared.peer = peer(instruction);
        break;
      case InstructionKind::transfer:
        break;
    }
    return prepared;
  }

  void prepare_load(PreparedInstruction& prepared) {
    const Instruction& instruction = *prepared.instruction;
    const Buffer& buffer = program_.buffer(instruction.outputs.at(0));
    if (buffer.dtype != DType::i32) {
      throw VerificationError("input '" + instruction.name + "' is " + std::string(to_string(buffer.dtype)) +
                              "; inputs are i32");
    }
    for (const Dim& dim : instruction.result_dims.at(0)) {
      const auto sharded = std::find_if(instruction.iteration.begin(), instruction.iteration.end(),
                                        [&dim](const ShardedDim& each) { return each.dim == dim; });
      if (sharded == instruction.iteration.end()) {
        throw VerificationError("input '" + instruction.name + "' does not say how its dim '" + dim + "' is sharded");
      }
      prepared.dims.push_back(index_map(*sharded, program_.mesh, coordinates_));
      prepared.per_micro_batch.push_back(sharded->per_micro_batch);
    }
    if (device_.is_host_memory()) return;
    prepared.staging_begin = prepared_.staging_elements;
    prepared_.staging_elements += buffer.elements() * program_.micro_batches;
  }

  void prepare_compute(PreparedInstruction& prepared) {
    const Instruction& instruction = *prepared.instruction;
    prepared.kernel = device_.prepare(describe_instruction(program_, instruction, coordinates_, seed_));
    prepared_.most_operands = std::max(prepared_.most_operands, instruction.inputs.size());
    prepared_.most_results = std::max(prepared_.most_results, instruction.outputs.size());
  }

  void prepare_copy(PreparedInstruction& prepared) {
    const Instruction& instruction = *prepared.instruction;
    const Axis& axis = instruction.copy.axis.axis;
    prepared.copies = plan_copy(instruction.copy, program_.buffer(instruction.inputs.at(0)).dtype,
                                program_.mesh.size(axis), coordinates_.at(axis));
  }

  [[nodiscard]] int peer(const Instruction& instruction) const {
    return ranks_of(counterparts_of(program_, instruction), program_.mesh, rank_).front();
  }

  const Program& program_;
  int rank_;
  std::uint64_t seed_;
  Device& device_;
  Coordinates coordinates_;
  Communicator& communicator_;
  std::map<Counterparts, int> groups_;
  PreparedProgram prepared_;
};

}  // namespace

PreparedProgram prepare(const Program& program, int rank, std::uint64_t seed, Device& device,
                        Communicator& communicator) {
  return Preparation(program, rank, seed, device, communicator).run();
}

}  // namespace strata::host
