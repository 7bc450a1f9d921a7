#include <algorithm>
#include <sstream>

#include "strata/error.hpp"
#include "strata/program.hpp"

namespace strata {

std::string_view to_string(BufferKind kind) {
  switch (kind) {
    case BufferKind::parameter:
      return "parameter";
    case BufferKind::gradient:
      return "gradient";
    case BufferKind::optimizer:
      return "optimizer";
    case BufferKind::activation:
      return "activation";
    case BufferKind::communication:
      return "communication";
    case BufferKind::workspace:
      return "workspace";
  }
  throw VerificationError("unknown kind of buffer");
}

std::string_view to_string(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::load:
      return "load";
    case InstructionKind::compute:
      return "compute";
    case InstructionKind::copy:
      return "copy";
    case InstructionKind::collective:
      return "collective";
    case InstructionKind::send:
      return "send";
    case InstructionKind::receive:
      return "receive";
    case InstructionKind::transfer:
      return "transfer";
  }
  throw VerificationError("unknown kind of instruction");
}

std::string_view to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::all_to_all:
      return "all_to_all";
    case CollectiveKind::broadcast:
      return "broadcast";
  }
  throw VerificationError("unknown kind of collective");
}

std::string_view to_string(Task::Kind kind) {
  switch (kind) {
    case Task::Kind::prologue:
      return "prologue";
    case Task::Kind::forward:
      return "forward";
    case Task::Kind::backward:
      return "backward";
    case Task::Kind::weight:
      return "weight";
    case Task::Kind::epilogue:
      return "epilogue";
  }
  throw VerificationError("unknown kind of task");
}

namespace {

std::string print(BufferId id) { return "%" + std::to_string(id); }

std::string print(const std::vector<BufferId>& ids) {
  std::vector<std::string> words;
  words.reserve(ids.size());
  for (const BufferId id : ids) words.push_back(print(id));
  return join(words, ", ");
}

std::string signed_number(int number) { return (number < 0 ? "" : "+") + std::to_string(number); }

/// "pp", or "pp{0,3}" where only some coordinates take part.
std::string print_group(const Instruction& instruction) {
  std::vector<std::string> members;
  for (const int member : instruction.members) members.push_back(std::to_string(member));
  return join(instruction.axes, "+") + (members.empty() ? "" : "{" + join(members, ",") + "}");
}

/// "seq/cp:zigzag+tp" and its global size.
std::string print(const ShardedDim& dim) {
  std::vector<std::string> axes;
  for (const AxisShard& shard : dim.axes) {
    axes.push_back(shard.axis + (shard.distribution == Distribution::zigzag ? ":zigzag" : "") +
                   (shard.shift == 0 ? "" : ":" + signed_number(shard.shift)));
  }
  return dim.dim + "=" + std::to_string(dim.global_size) + (axes.empty() ? "" : "/" + join(axes, "+"));
}

std::string print(const std::vector<ShardedDim>& dims) {
  std::vector<std::string> words;
  words.reserve(dims.size());
  for (const ShardedDim& dim : dims) words.push_back(print(dim));
  return "[" + join(words) + "]";
}

/// "f32[batch=4 embed=8]", "f32[1024]" for a flat buffer.
std::string print_type(const Buffer& buffer) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < buffer.shape.size(); ++i) {
    const std::string size = std::to_string(buffer.shape[i]);
    words.push_back(buffer.dims.size() == buffer.shape.size() ? buffer.dims[i] + "=" + size : size);
  }
  return std::string(to_string(buffer.dtype)) + "[" + join(words) + "]";
}

std::string print_copy(const CopyDescription& copy) {
  const char* kind = copy.kind == CopyDescription::Kind::slice  ? "slice"
                     : copy.kind == CopyDescription::Kind::pack ? "pack"
                                                                : "unpack";
  return std::string(kind) + "[" + std::to_string(copy.outer) + " " + std::to_string(copy.size) + "/" + copy.axis.axis +
         (copy.axis.distribution == Distribution::zigzag ? ":zigzag" : "") + " " + std::to_string(copy.inner) + "]";
}

std::string print_action(const Instruction& instruction) {
  const std::string inputs = "(" + print(instruction.inputs) + ")";
  switch (instruction.kind) {
    case InstructionKind::compute:
      return instruction.op + inputs + to_string(instruction.attributes) +
             (instruction.iteration.empty() ? "" : " " + print(instruction.iteration));
    case InstructionKind::copy:
      return print_copy(instruction.copy) + inputs;
    case InstructionKind::collective: {
      std::string text(to_string(instruction.collective));
      if (instruction.collective == CollectiveKind::broadcast) text += " from " + std::to_string(instruction.peer);
      if (instruction.reduction != Reduction::sum) text += " " + std::string(to_string(instruction.reduction));
      return text + inputs + " over " + print_group(instruction) + " id " + std::to_string(instruction.id);
    }
    case InstructionKind::send:
    case InstructionKind::receive:
      return std::string(to_string(instruction.kind)) + inputs +
             (instruction.kind == InstructionKind::send ? " to " : " from ") + join(instruction.axes, "+") + "=" +
             (instruction.relative_peer ? signed_number(instruction.peer) : std::to_string(instruction.peer)) + " id " +
             std::to_string(instruction.id);
    case InstructionKind::load:
    case InstructionKind::transfer:
      return std::string(to_string(instruction.kind)) + inputs;
  }
  throw VerificationError("unknown kind of instruction");
}

void print_buffer(std::ostream& out, const Buffer& buffer) {
  out << print(buffer.id) << ' ' << to_string(buffer.kind) << ' ' << print_type(buffer) << ' ' << buffer.name;
  if (buffer.base >= 0) out << ", view of " << print(buffer.base) << " at " << buffer.offset;
  if (buffer.persistent) out << ", persistent";
  if (buffer.place != MemoryPlace::device)
    out << (buffer.place == MemoryPlace::host ? ", in host memory" : ", in a file");
  out << '\n';
}

void print_parameter(std::ostream& out, const StoredParameter& parameter) {
  out << "parameter " << parameter.name << ' ' << print(parameter.dims) << " value " << print(parameter.value);
  if (parameter.gradient >= 0) out << " gradient " << print(parameter.gradient);
  for (const auto& [name, id] : parameter.states) out << ' ' << name << ' ' << print(id);
  if (const auto& sharding = parameter.sharding) {
    out << (sharding->values ? " in pieces over " : ", states in pieces over ") << join(sharding->axes, "+") << " from "
        << sharding->offset << " of " << sharding->elements;
  }
  out << '\n';
}

}  // namespace

std::string to_string(const Program& program, const Instruction& instruction) {
  std::string text;
  if (!instruction.outputs.empty()) {
    text += print(instruction.outputs) + (instruction.accumulate ? " += " : " = ");
  }
  text += print_action(instruction);
  if (!instruction.outputs.empty()) {
    text += " ->";
    for (const BufferId id : instruction.outputs) {
      const bool known = id >= 0 && static_cast<std::size_t>(id) < program.buffers.size();
      text += " " + (known ? print_type(program.buffer(id)) : "?");
    }
  }
  if (instruction.workspace >= 0) text += ", workspace " + print(instruction.workspace);
  if (!instruction.waits.empty()) text += ", waits " + print(instruction.waits);
  return text + "  # " + instruction.name;
}

std::string to_string(const Program& program) {
  std::ostringstream out;
  out << "program " << program.name << ", mesh";
  for (const MeshAxis& axis : program.mesh.axes()) out << ' ' << axis.name << '=' << axis.size;
  out << ", micro-batches " << program.micro_batches << '\n';
  for (const Buffer& buffer : program.buffers) print_buffer(out, buffer);
  for (const StoredParameter& parameter : program.parameters) print_parameter(out, parameter);
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Task& task = program.tasks[i];
    out << "task " << i << ' ' << task.name << " (" << to_string(task.kind) << ", chunk " << task.chunk << ")\n";
    for (const Instruction& instruction : task.instructions) out << "  " << to_string(program, instruction) << '\n';
  }
  out << "schedule";
  for (const TaskInstance& instance : program.schedule) {
    out << ' ' << instance.task;
    if (instance.micro_batch >= 0) out << '@' << instance.micro_batch;
  }
  out << '\n';
  for (const auto& [name, id] : program.reports) out << "report " << name << " <- " << print(id) << '\n';
  return out.str();
}

}  // namespace strata
