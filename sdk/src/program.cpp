#include "strata/program.hpp"

#include <algorithm>
#include <iterator>

#include "strata/error.hpp"

namespace strata {

IndexMap index_map(const ShardedDim& dim, const Mesh& mesh, const Coordinates& coordinates) {
  IndexMap map = IndexMap::whole(dim.global_size);
  for (const AxisShard& shard : dim.axes) {
    const auto at = coordinates.find(shard.axis);
    if (at == coordinates.end()) throw VerificationError("no coordinate along mesh axis '" + shard.axis + "'");
    const int size = mesh.size(shard.axis);
    map = map.piece(size, around(at->second, shard.shift, size), shard.distribution);
  }
  return map;
}

int around(int coordinate, int at, int size) { return ((coordinate + at) % size + size) % size; }

std::string_view kind_name(const Instruction& instruction) {
  static constexpr std::string_view kNames[] = {"load", "compute", "copy", "collective", "send", "receive", "transfer"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(instruction.work)>);
  return kNames[instruction.work.index()];
}

std::string work_name(const Instruction& instruction) {
  if (const auto* compute = instruction.as<Compute>()) return compute->op;
  if (const auto* collective = instruction.as<Collective>()) return std::string(to_string(collective->kind));
  return std::string(kind_name(instruction));
}

std::vector<Axis> communication_axes(const Instruction& instruction) {
  if (const auto* collective = instruction.as<Collective>()) return collective->axes;
  if (const auto* send = instruction.as<Send>()) return {send->to.axis};
  if (const auto* receive = instruction.as<Receive>()) return {receive->from.axis};
  return {};
}

bool is_communication(const Instruction& instruction) {
  return instruction.is<Collective>() || instruction.is<Send>() || instruction.is<Receive>();
}

bool is_asynchronous(const Instruction& instruction) {
  return is_communication(instruction) || instruction.is<Transfer>();
}

std::uint64_t communication_id(const Instruction& instruction) {
  if (const auto* collective = instruction.as<Collective>()) return collective->id;
  if (const auto* send = instruction.as<Send>()) return send->id;
  if (const auto* receive = instruction.as<Receive>()) return receive->id;
  throw VerificationError("instruction '" + instruction.name + "' is no communication");
}

int Program::group_size(const Collective& collective) const {
  return collective.members.empty() ? mesh.size(collective.axes) : static_cast<int>(collective.members.size());
}

BufferId Program::root(BufferId id) const {
  std::size_t steps = 0;
  while (true) {
    if (id < 0 || static_cast<std::size_t>(id) >= buffers.size()) {
      throw VerificationError("program '" + name + "' has no buffer %" + std::to_string(id));
    }
    const BufferId base = buffer(id).base;
    if (base < 0) return id;
    if (++steps > buffers.size()) throw VerificationError("buffer %" + std::to_string(id) + " is a view of itself");
    id = base;
  }
}

namespace {

double total_bytes(const Program& program, const std::vector<BufferId>& ids) {
  double bytes = 0;
  for (const BufferId id : ids) bytes += static_cast<double>(program.buffer(id).bytes());
  return bytes;
}

}  // namespace

double bytes_sent(const Program& program, const Instruction& instruction) {
  const double input = total_bytes(program, instruction.inputs);
  if (instruction.is<Send>()) return input;
  const auto* collective = instruction.as<Collective>();
  if (collective == nullptr) return 0;
  const double ranks = program.group_size(*collective);
  const double full = std::max(input, total_bytes(program, instruction.outputs));
  const double once = (ranks - 1) / ranks * full;
  return collective->kind == CollectiveKind::all_reduce ? 2 * once : once;
}

}  // namespace strata
