#include "strata/program.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "enum_names.hpp"
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

double bytes_sent(const Program& program, const Instruction& instruction) {
  const auto* collective = instruction.as<Collective>();
  if (collective == nullptr && !instruction.is<Send>()) return 0;
  const auto bytes = [&](BufferId id) { return static_cast<double>(program.buffer(id).bytes()); };
  const double input = bytes(instruction.inputs.front());
  if (collective == nullptr) return input;
  const double ranks = program.group_size(*collective);
  const double once = (ranks - 1) / ranks * std::max(input, bytes(instruction.outputs.front()));
  return collective->kind == CollectiveKind::all_reduce ? 2 * once : once;
}

std::string_view to_string(BufferKind kind) {
  static constexpr std::string_view kNames[] = {"parameter",     "gradient",  "optimizer", "activation",
                                                "communication", "workspace", "cache"};
  return name_of(kNames, kind);
}

std::string_view to_string(CollectiveKind kind) {
  static constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                                "broadcast"};
  return name_of(kNames, kind);
}

std::string_view to_string(Task::Kind kind) {
  static constexpr std::string_view kNames[] = {"prologue", "forward", "backward", "weight", "epilogue"};
  return name_of(kNames, kind);
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
  const char* role = parameter.role == ParameterRole::trained    ? ""
                     : parameter.role == ParameterRole::frozen   ? "frozen "
                     : parameter.role == ParameterRole::constant ? "constant "
                                                                 : "averaging ";
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
  for (const EarlierWait& each : instruction.earlier_waits) {
    text += ", waits " + print(each.buffer) + " of micro-batch -" + std::to_string(each.distance);
  }
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
