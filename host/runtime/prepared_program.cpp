#include "runtime/prepared_program.hpp"

#include <algorithm>
#include <utility>

#include "compiler/program/communication_trace.hpp"
#include "compiler/program/op_instance.hpp"
#include "runtime/traffic.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Alignment of a load's staging memory, enough for any type.
constexpr std::int64_t kStagingAlignment = 64;

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
      for (const Instruction& instruction : task.instructions) instructions.push_back(prepared(instruction));
    }
    communicator_.make_ready(plan_);
    return std::move(prepared_);
  }

 private:
  /// Creates groups in the order of their axes' names, because ranks with different programs must create common groups
  /// in one order.
  void make_groups() {
    for (const Task& task : program_.tasks) {
      for (const Instruction& instruction : task.instructions) {
        if (instruction.is<Collective>()) {
          groups_.try_emplace(counterparts_of(program_, instruction), -1);
        }
      }
    }
    for (auto& [with, group] : groups_) group = communicator_.create_group(ranks_of(with, program_.mesh, rank_));
  }

  PreparedInstruction prepared(const Instruction& instruction) {
    PreparedInstruction prepared;
    prepared.instruction = &instruction;
    std::visit([&](const auto& work) { prepare(prepared, work); }, instruction.work);
    return prepared;
  }

  void prepare(PreparedInstruction& prepared, const LoadInput& load) {
    const Instruction& instruction = *prepared.instruction;
    const Buffer& buffer = program_.buffer(instruction.outputs.at(0));
    if (load.dims.size() != buffer.shape.size()) {
      throw VerificationError("input '" + instruction.name + "' does not say how all its dims are sharded");
    }
    for (const ShardedDim& dim : load.dims) {
      prepared.dims.push_back(index_map(dim, program_.mesh, coordinates_));
      prepared.per_micro_batch.push_back(dim.per_micro_batch);
    }
    if (device_.is_host_memory()) return;
    prepared.staging_begin = prepared_.staging_bytes;
    const std::int64_t bytes = buffer.bytes() * program_.micro_batches;
    prepared_.staging_bytes += (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
  }

  void prepare(PreparedInstruction& prepared, const Compute& /*compute*/) {
    const Instruction& instruction = *prepared.instruction;
    const OpInstance instance = describe_instruction(program_, instruction, coordinates_, seed_);
    prepared.kernel = device_.prepare(instance);
    if (prepared.kernel == nullptr) {
      throw RuntimeError("the device prepares no kernel (a null pointer) for op '" + instance.op + "' ('" +
                         instance.name + "')");
    }
    prepared_.most_operands = std::max(prepared_.most_operands, instruction.inputs.size());
    prepared_.most_results = std::max(prepared_.most_results, instruction.outputs.size());
  }

  void prepare(PreparedInstruction& prepared, const Copy& copy) {
    prepared.copies = plan_copy(copy, program_.buffer(prepared.instruction->inputs.at(0)).dtype,
                                program_.mesh.size(copy.axis.axis), coordinates_.at(copy.axis.axis));
  }

  void prepare(PreparedInstruction& prepared, const Collective& collective) {
    prepared.group = groups_.at(counterparts_of(program_, *prepared.instruction));
    plan_.collectives.insert({prepared.group, collective.kind});
    prepared.group_size = program_.group_size(collective);
    prepared.traffic = &prepared_.traffic[traffic_key(*prepared.instruction)];
  }

  void prepare(PreparedInstruction& prepared, const Send& send) {
    prepared.traffic = &prepared_.traffic[traffic_key(*prepared.instruction)];
    prepared.peer = peer(*prepared.instruction);
    plan_.sends_to.insert({prepared.peer, send.channel});
  }

  void prepare(PreparedInstruction& prepared, const Receive& receive) {
    prepared.peer = peer(*prepared.instruction);
    plan_.receives_from.insert({prepared.peer, receive.channel});
  }

  static void prepare(PreparedInstruction& /*prepared*/, const Transfer& /*transfer*/) {}

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
  CommunicationPlan plan_;
  PreparedProgram prepared_;
};

}  // namespace

PreparedProgram prepare(const Program& program, int rank, std::uint64_t seed, Device& device,
                        Communicator& communicator) {
  return Preparation(program, rank, seed, device, communicator).run();
}

}  // namespace strata::host
