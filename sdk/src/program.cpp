#include "strata/program.hpp"

#include <algorithm>

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

int Program::group_size(const Instruction& instruction) const {
  return instruction.members.empty() ? mesh.size(instruction.axes) : static_cast<int>(instruction.members.size());
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
  if (instruction.kind == InstructionKind::send) return input;
  if (instruction.kind != InstructionKind::collective) return 0;
  const double ranks = program.group_size(instruction);
  const double full = std::max(input, total_bytes(program, instruction.outputs));
  const double once = (ranks - 1) / ranks * full;
  return instruction.collective == CollectiveKind::all_reduce ? 2 * once : once;
}

}  // namespace strata
