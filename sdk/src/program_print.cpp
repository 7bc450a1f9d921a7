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
    case BufferKind::cache:
      return "cache";
  }
  throw VerificationError("unknown kind of buffer");
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

/// The group of a collective: "pp", or "pp{0,3}" if only some coordinates take part.
std::string print_group(const Collective& collective) {
  std::vector<std::string> members;
  for (const int member : collective.members) members.push_back(std::to_string(member));
  return join(collective.axes, "+") + (members.empty() ? "" : "{" + join(members, ",") + "}");
}

/// A peer: "pp=2", or "cp=+1" for a distance.
std::string print(const Peer& peer) {
  return peer.axis + "=" + (peer.is_relative ? signed_number(peer.coordinate) : std::to_string(peer.coordinate));
}

/// A dimension with its axes, such as "seq/cp:zigzag+tp", and its global size.
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

/// Type and shape of a buffer: "f32[batch=4 embed=8]", or "f32[1024]" for a flat buffer.
std::string print_type(const Buffer& buffer) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < buffer.shape.size(); ++i) {
    const std::string size = std::to_string(buffer.shape[i]);
    words.push_back(buffer.dims.size() == buffer.shape.size() ? buffer.dims[i] + "=" + size : size);
  }
  return std::string(to_string(buffer.dtype)) + "[" + join(words) + "]";
}

/// Prints the work of an instruction. `inputs` is a list such as "(%1, %2)".
struct WorkPrinter {
  const std::string& inputs;

  std::string operator()(const LoadInput& load) const { return "load" + inputs + " " + print(load.dims); }
  std::string operator()(const Compute& compute) const {
    return compute.op + inputs + to_string(compute.attributes) +
           (compute.iteration.empty() ? "" : " " + print(compute.iteration));
  }
  std::string operator()(const Copy& copy) const {
    const char* kind = copy.kind == Copy::Kind::slice ? "slice" : copy.kind == Copy::Kind::pack ? "pack" : "unpack";
    return std::string(kind) + "[" + std::to_string(copy.outer) + " " + std::to_string(copy.size) + "/" +
           copy.axis.axis + (copy.axis.distribution == Distribution::zigzag ? ":zigzag" : "") + " " +
           std::to_string(copy.inner) + "]" + inputs;
  }
  std::string operator()(const Collective& collective) const {
    std::string text(to_string(collective.kind));
    if (collective.kind == CollectiveKind::broadcast) text += " from " + std::to_string(collective.root);
    if (collective.reduction != Reduction::sum) text += " " + std::string(to_string(collective.reduction));
    return text + inputs + " over " + print_group(collective) + " id " + std::to_string(collective.id);
  }
  std::string operator()(const Send& send) const {
    return "send" + inputs + " to " + print(send.to) + " id " + std::to_string(send.id);
  }
  std::string operator()(const Receive& receive) const {
    return "receive" + inputs + " from " + print(receive.from) + " id " + std::to_string(receive.id);
  }
  std::string operator()(const Transfer& /*transfer*/) const { return "transfer" + inputs; }
};

void print_buffer(std::ostream& out, const Buffer& buffer) {
  out << print(buffer.id) << ' ' << to_string(buffer.kind) << ' ' << print_type(buffer) << ' ' << buffer.name;
  if (buffer.base >= 0) out << ", view of " << print(buffer.base) << " at " << buffer.offset;
  if (buffer.persistent) out << ", persistent";
  if (buffer.place != MemoryPlace::device)
    out << (buffer.place == MemoryPlace::host ? ", in host memory" : ", in a file");
  out << '\n';
}

/// The condition after "step % ", such as "4 == 3".
std::string print(const StepCondition& when) {
  return std::to_string(when.period) + " == " + std::to_string(when.phase);
}

void print_parameter(std::ostream& out, const StoredParameter& parameter) {
  const char* role = parameter.role == ParameterRole::trained  ? ""
                     : parameter.role == ParameterRole::frozen ? "frozen "
                                                               : "constant ";
  out << role << "parameter " << parameter.name << ' ' << print(parameter.dims) << " value " << print(parameter.value);
  if (parameter.gradient >= 0) out << " gradient " << print(parameter.gradient);
  for (const auto& [name, id] : parameter.states) {
    out << ' ' << name << ' ' << print(id);
    const auto traits = parameter.traits.find(name);
    if (traits == parameter.traits.end()) continue;
    out << " (from " << (traits->second.begins_as_value ? "the value" : "zero")
        << (traits->second.unsynchronized.empty() ? ""
                                                  : ", unsynchronized over " + join(traits->second.unsynchronized, "+"))
        << (traits->second.is_summed ? ", summed" : "") << ')';
  }
  if (const auto& sharding = parameter.sharding) {
    out << (sharding->values ? " in pieces over " : ", states in pieces over ") << join(sharding->axes, "+") << " from "
        << sharding->offset << " of " << sharding->elements;
  }
  if (!parameter.unsynchronized.empty()) out << ", unsynchronized over " << join(parameter.unsynchronized, "+");
  out << '\n';
}

}  // namespace

std::string to_string(const Program& program, const Instruction& instruction) {
  const auto* compute = instruction.as<Compute>();
  std::string text;
  if (!instruction.outputs.empty()) {
    text += print(instruction.outputs) + (compute != nullptr && compute->accumulate ? " += " : " = ");
  }
  text += std::visit(WorkPrinter{"(" + print(instruction.inputs) + ")"}, instruction.work);
  if (!instruction.outputs.empty()) {
    text += " ->";
    for (const BufferId id : instruction.outputs) {
      const bool known = id >= 0 && static_cast<std::size_t>(id) < program.buffers.size();
      text += " " + (known ? print_type(program.buffer(id)) : "?");
    }
  }
  if (compute != nullptr && compute->workspace >= 0) text += ", workspace " + print(compute->workspace);
  if (!instruction.waits.empty()) text += ", waits " + print(instruction.waits);
  if (instruction.occurrence == Occurrence::last) text += ", in the last run";
  if (!instruction.when.is_always()) text += ", if step % " + print(instruction.when);
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
