#include "compiler/check/program_verify.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/check/emitted_check.hpp"
#include "compiler/check/program_check.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "strata/error.hpp"

namespace strata::host {

void ProgramUnderCheck::fail(const std::string& what) const {
  throw VerificationError("after " + after + ": program '" + program.name + "': " + what);
}

void ProgramUnderCheck::fail(const TaskInstance& at, std::size_t instruction, const std::string& what) const {
  fail(describe(program, at, instruction) + ": " + what);
}

namespace {

bool exists(const Program& program, BufferId id) {
  return id >= 0 && static_cast<std::size_t>(id) < program.buffers.size();
}

void shape_is_valid(const ProgramUnderCheck& check, const Buffer& buffer) {
  for (const std::int64_t size : buffer.shape) {
    if (size < 1)
      check.fail("buffer " + describe(check.program, buffer.id) + " has a dimension of " + std::to_string(size));
  }
  if (buffer.dims.size() != buffer.shape.size() && !is_flat(buffer)) {
    check.fail("buffer " + describe(check.program, buffer.id) + " has " + std::to_string(buffer.dims.size()) +
               " dimension names and " + std::to_string(buffer.shape.size()) +
               " sizes; a flat buffer has no name and one size");
  }
}

void view_fits_base(const ProgramUnderCheck& check, const Buffer& view) {
  if (!exists(check.program, view.base)) {
    check.fail("buffer " + describe(check.program, view.id) + " is a view of %" + std::to_string(view.base) +
               ", which is not there");
  }
  const Buffer& base = check.program.buffer(view.base);
  const auto fail = [&](const std::string& what) {
    check.fail("view " + describe(check.program, view.id) + " of " + describe(check.program, view.base) + what);
  };
  if (view.dtype != base.dtype) fail(" has another element type");
  if (view.persistent != base.persistent) fail(": one is persistent, the other is not");
  if (view.place != base.place) {
    fail(": one is in " + std::string(to_string(view.place)) + " memory, the other in " +
         std::string(to_string(base.place)) + " memory");
  }
  if (view.offset < 0 || view.offset + view.elements() > base.elements()) {
    fail(" covers elements " + std::to_string(view.offset) + " to " + std::to_string(view.offset + view.elements()) +
         " of " + std::to_string(base.elements()));
  }
}

void buffers_are_valid(const ProgramUnderCheck& check) {
  const std::vector<Buffer>& buffers = check.program.buffers;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].id != static_cast<BufferId>(i)) {
      check.fail("buffer '" + buffers[i].name + "' at place " + std::to_string(i) + " has id " +
                 std::to_string(buffers[i].id));
    }
    shape_is_valid(check, buffers[i]);
    if (buffers[i].base >= 0) view_fits_base(check, buffers[i]);
    if (buffers[i].place != MemoryPlace::device && !buffers[i].persistent) {
      check.fail("buffer " + describe(check.program, buffers[i].id) + " in " +
                 std::string(to_string(buffers[i].place)) + " memory is not persistent");
    }
  }
  for (const Buffer& buffer : buffers) static_cast<void>(check.program.root(buffer.id));  // throws on a cycle
}

void instructions_are_valid(const ProgramUnderCheck& check) {
  for (std::size_t task = 0; task < check.program.tasks.size(); ++task) {
    const std::vector<Instruction>& instructions = check.program.tasks[task].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const auto fault = find_fault(check.program, instructions[i]);
      if (fault) check.fail({static_cast<int>(task), -1}, i, *fault);
    }
  }
}

void schedule_is_valid(const ProgramUnderCheck& check) {
  const Program& program = check.program;
  if (program.micro_batches < 1) check.fail("there are " + std::to_string(program.micro_batches) + " micro-batches");
  std::vector<std::vector<bool>> seen(program.tasks.size());  // by task and micro-batch + 1
  for (const TaskInstance& at : program.schedule) {
    if (at.task < 0 || static_cast<std::size_t>(at.task) >= program.tasks.size()) {
      check.fail("the schedule runs task " + std::to_string(at.task) + ", which is not there");
    }
    const Task& task = program.tasks[static_cast<std::size_t>(at.task)];
    const bool once = task.kind == Task::Kind::prologue || task.kind == Task::Kind::epilogue;
    const auto what = [&] {
      return "the schedule runs task '" + task.name + "' (" + std::string(to_string(task.kind)) + ") for micro-batch " +
             std::to_string(at.micro_batch);
    };
    if (once ? at.micro_batch != -1 : at.micro_batch < 0 || at.micro_batch >= program.micro_batches) {
      check.fail(what() + "; " +
                 (once ? "it belongs to none (-1)" : "there are " + std::to_string(program.micro_batches)));
    }
    const auto slot = static_cast<std::size_t>(at.micro_batch + 1);
    std::vector<bool>& runs = seen[static_cast<std::size_t>(at.task)];
    if (slot >= runs.size()) runs.resize(once ? 1 : static_cast<std::size_t>(program.micro_batches) + 1);
    if (runs[slot]) check.fail(what() + " twice");
    runs[slot] = true;
  }
}

/// A task with instructions of Occurrence::last needs exactly one run that is marked as the last, and no run after it.
void last_runs_are_last(const ProgramUnderCheck& check) {
  const Program& program = check.program;
  for (std::size_t task = 0; task < program.tasks.size(); ++task) {
    const auto& instructions = program.tasks[task].instructions;
    const bool has_last_run =
        std::ranges::any_of(instructions, [](const Instruction& each) { return each.occurrence == Occurrence::last; });
    if (!has_last_run) continue;
    int marked = 0;
    bool ends_with_marked = false;
    for (const TaskInstance& at : program.schedule) {
      if (at.task != static_cast<int>(task)) continue;
      ends_with_marked = at.is_last;
      marked += at.is_last ? 1 : 0;
    }
    if (ends_with_marked && marked == 1) continue;
    check.fail("task '" + program.tasks[task].name +
               "' has instructions for its last run, but not exactly its last run is marked so");
  }
}

/// Local elements of a tensor of `dims`, the parameter or a state of it, in its compute layout.
std::int64_t local_elements(const ProgramUnderCheck& check, const StoredParameter& parameter,
                            const std::vector<ShardedDim>& dims) {
  std::int64_t elements = 1;
  for (const ShardedDim& dim : dims) {
    std::int64_t pieces = 1;
    for (const AxisShard& shard : dim.axes) pieces *= check.program.mesh.size(shard.axis);
    if (dim.global_size < 1 || dim.global_size % pieces != 0) {
      check.fail("parameter '" + parameter.name + "': dimension '" + dim.dim + "' of " +
                 std::to_string(dim.global_size) + " is dealt to " + std::to_string(pieces) + " ranks");
    }
    elements *= dim.global_size / pieces;
  }
  return elements;
}

/// Elements of a rank's piece of the bucket that contains `elements` of the parameter or of a state of it.
std::int64_t piece_elements(const ProgramUnderCheck& check, const StoredParameter& parameter,
                            const FlatSharding& sharding, std::int64_t elements) {
  const std::int64_t pieces = check.program.mesh.size(sharding.axes);
  if (sharding.elements % pieces != 0) {
    check.fail("parameter '" + parameter.name + "': its bucket of " + std::to_string(sharding.elements) +
               " elements is dealt to " + std::to_string(pieces) + " ranks");
  }
  if (sharding.offset < 0 || sharding.offset + elements > sharding.elements) {
    check.fail("parameter '" + parameter.name + "' reaches beyond its bucket of " + std::to_string(sharding.elements) +
               " elements");
  }
  return sharding.elements / pieces;
}

/// Elements on a rank of a state with its own dims.
std::int64_t state_elements(const ProgramUnderCheck& check, const StoredParameter& parameter, const std::string& name) {
  const std::int64_t elements = local_elements(check, parameter, parameter.state_dims.at(name));
  const auto sharding = parameter.state_sharding.find(name);
  if (sharding == parameter.state_sharding.end()) return elements;
  return piece_elements(check, parameter, sharding->second, elements);
}

void storage_is_valid(const ProgramUnderCheck& check, const StoredParameter& parameter) {
  const Program& program = check.program;
  const std::int64_t elements = local_elements(check, parameter, parameter.dims);
  const std::int64_t piece =
      parameter.sharding ? piece_elements(check, parameter, *parameter.sharding, elements) : elements;
  const auto holds = [&](const std::string& what, BufferId id, bool persistent, std::int64_t expected) {
    if (!exists(program, id)) check.fail("parameter '" + parameter.name + "': its " + what + " has no buffer");
    const Buffer& buffer = program.buffer(id);
    if (buffer.elements() != expected) {
      check.fail("parameter '" + parameter.name + "' has " + std::to_string(expected) + " elements on a rank, its " +
                 what + " " + describe(program, id) + " has " + std::to_string(buffer.elements()));
    }
    if (persistent && !buffer.persistent) {
      check.fail("parameter '" + parameter.name + "': its " + what + " " + describe(program, id) +
                 " is not persistent");
    }
  };
  holds("value", parameter.value, true, parameter.sharding && parameter.sharding->values ? piece : elements);
  if (parameter.gradient != -1) holds("gradient", parameter.gradient, false, elements);
  for (const auto& [name, id] : parameter.states) {
    holds(name, id, true, parameter.state_dims.contains(name) ? state_elements(check, parameter, name) : piece);
  }
}

void parameters_are_valid(const ProgramUnderCheck& check) {
  std::set<std::string> names;
  for (const StoredParameter& parameter : check.program.parameters) {
    if (!names.insert(parameter.name).second) check.fail("parameter '" + parameter.name + "' is stored twice");
    storage_is_valid(check, parameter);
  }
  for (const auto& [name, id] : check.program.reports) {
    if (!exists(check.program, id)) check.fail("report '" + name + "' has no buffer");
    if (check.program.buffer(id).place != MemoryPlace::device) {
      check.fail("report '" + name + "' reads " + describe(check.program, id) + ", which is not in device memory");
    }
  }
}

}  // namespace

void verify_structure(const ProgramUnderCheck& check) {
  buffers_are_valid(check);
  instructions_are_valid(check);
  schedule_is_valid(check);
  last_runs_are_last(check);
  parameters_are_valid(check);
}

void verify(const Program& program, const OpRegistry& registry, const std::string& after, bool has_device) {
  const ProgramUnderCheck check{program, registry, after, has_device};
  verify_structure(check);
  verify_operands(check);
  verify_flow(check);
}

}  // namespace strata::host
