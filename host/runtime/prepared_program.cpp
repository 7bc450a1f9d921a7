#include "runtime/prepared_program.hpp"

#include <algorithm>
#include <utility>

#include "compiler/program/communication_trace.hpp"
#include "compiler/program/instructions.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The key under which an instruction's traffic is counted, such as "all_reduce dp" or "send pp".
std::string traffic_key(const Instruction& instruction) {
  return work_name(instruction) + " " + join(communication_axes(instruction), "+");
}

/// Alignment of a load's staging memory, enough for any type.
constexpr std::int64_t kStagingAlignment = 64;

class Preparation {
 public:
  explicit Preparation(const RankContext& context)
      : context_(context), program_(context.program), coordinates_(program_.mesh.coordinates(context.rank)) {}

  PreparedProgram run() {
    make_groups();
    for (const Task& task : program_.tasks) {
      std::vector<PreparedInstruction>& instructions = prepared_.tasks.emplace_back();
      instructions.reserve(task.instructions.size());
      for (const Instruction& instruction : task.instructions) instructions.push_back(prepared(instruction));
    }
    context_.communicator.make_ready(plan_);
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
    for (auto& [with, group] : groups_)
      group = context_.communicator.create_group(ranks_of(with, program_.mesh, context_.rank));
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
    if (context_.device.is_host_memory()) return;
    prepared.staging_begin = prepared_.staging_bytes;
    const std::int64_t bytes = buffer.bytes() * program_.micro_batches;
    prepared_.staging_bytes += (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
  }

  void prepare(PreparedInstruction& prepared, const Compute& /*compute*/) {
    const Instruction& instruction = *prepared.instruction;
    const OpInstance instance = describe_instruction(program_, instruction, coordinates_, context_.seed);
    prepared.kernel = context_.device.prepare(instance);
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
    count(prepared);
  }

  void prepare(PreparedInstruction& prepared, const Send& send) {
    count(prepared);
    prepared.peer = peer(*prepared.instruction);
    plan_.sends_to.insert({prepared.peer, send.channel});
  }

  void prepare(PreparedInstruction& prepared, const Receive& receive) {
    prepared.peer = peer(*prepared.instruction);
    plan_.receives_from.insert({prepared.peer, receive.channel});
  }

  static void prepare(PreparedInstruction& /*prepared*/, const Transfer& /*transfer*/) {}

  void count(PreparedInstruction& prepared) {
    prepared.traffic = &prepared_.traffic[traffic_key(*prepared.instruction)];
    prepared.bytes_sent = bytes_sent(program_, *prepared.instruction);
  }

  [[nodiscard]] int peer(const Instruction& instruction) const {
    return ranks_of(counterparts_of(program_, instruction), program_.mesh, context_.rank).front();
  }

  const RankContext& context_;
  const Program& program_;
  Coordinates coordinates_;
  std::map<Counterparts, int> groups_;
  CommunicationPlan plan_;
  PreparedProgram prepared_;
};

/// Merges rows that are contiguous on both sides into one.
RowCopy merged(RowCopy copy) {
  if (copy.width != copy.destination_pitch || copy.width != copy.source_pitch) return copy;
  const std::int64_t bytes = copy.width * copy.rows;
  return {copy.destination_offset, bytes, copy.source_offset, bytes, bytes, 1};
}

RowCopy reversed(const RowCopy& copy) {
  return {copy.source_offset,     copy.source_pitch, copy.destination_offset,
          copy.destination_pitch, copy.width,        copy.rows};
}

}  // namespace

PreparedProgram prepare(const RankContext& context) { return Preparation(context).run(); }

void count_traffic(const PreparedInstruction& prepared) {
  if (prepared.traffic == nullptr) return;
  ++prepared.traffic->calls;
  prepared.traffic->bytes_sent += prepared.bytes_sent;
}

std::vector<RowCopy> plan_copy(const Copy& description, DType dtype, int count, int index) {
  const std::int64_t unit = description.inner * static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t piece_size = description.size / count;
  const bool slices = description.kind == Copy::Kind::slice;
  std::vector<RowCopy> copies;
  for (int piece = slices ? index : 0; piece < (slices ? index + 1 : count); ++piece) {
    const std::int64_t piece_begin = slices ? 0 : piece * description.outer * piece_size * unit;
    for (const IndexSegment& run : split_dimension(description.size, count, piece, description.axis.distribution)) {
      RowCopy copy{piece_begin + run.local_begin * unit,
                   piece_size * unit,
                   run.global_begin * unit,
                   description.size * unit,
                   run.length * unit,
                   description.outer};
      if (description.kind == Copy::Kind::unpack) copy = reversed(copy);
      copies.push_back(merged(copy));
    }
  }
  return copies;
}

void launch_copy(Device& device, const std::vector<RowCopy>& copies, std::byte* destination, const std::byte* source) {
  for (const RowCopy& copy : copies) {
    if (copy.rows == 1) {
      device.copy(StreamKind::compute, destination + copy.destination_offset, source + copy.source_offset, copy.width);
    } else {
      device.copy_rows(StreamKind::compute, destination + copy.destination_offset, copy.destination_pitch,
                       source + copy.source_offset, copy.source_pitch, copy.width, copy.rows);
    }
  }
}

}  // namespace strata::host
