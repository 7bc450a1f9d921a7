#include "compiler/program/buffer_ranges.hpp"

namespace strata::host {

BufferRanges::BufferRanges(const Program& program) : program_(program) {
  places_.reserve(program.buffers.size());
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const auto buffer = static_cast<BufferId>(i);
    const BufferId root = program.root(buffer);
    const auto [begin, end] = bytes_in_root(program, buffer);
    places_.push_back({root, begin, end, program.buffer(root).persistent});
  }
}

ByteRange BufferRanges::range(BufferId buffer, int micro_batch) const {
  const Place& at = place(buffer);
  return {instance(buffer, micro_batch), at.begin, at.end};
}

std::int64_t BufferRanges::instance(BufferId buffer, int micro_batch) const {
  const Place& at = place(buffer);
  const std::int64_t slot = at.persistent ? 0 : micro_batch + 1;
  return at.root * (std::int64_t{program_.micro_batches} + 1) + slot;
}

BufferId BufferRanges::root_of_instance(std::int64_t instance) const {
  return static_cast<BufferId>(instance / (program_.micro_batches + 1));
}

int BufferRanges::micro_batch_of_instance(std::int64_t instance) const {
  return static_cast<int>(instance % (program_.micro_batches + 1)) - 1;
}

std::string BufferRanges::describe_instance(std::int64_t instance) const {
  const int micro_batch = micro_batch_of_instance(instance);
  return describe(program_, root_of_instance(instance)) +
         (micro_batch < 0 ? "" : " of micro-batch " + std::to_string(micro_batch));
}

std::pair<std::int64_t, std::int64_t> bytes_in_root(const Program& program, BufferId buffer) {
  const BufferId root = program.root(buffer);
  std::int64_t begin = 0;
  for (BufferId at = buffer; at != root; at = program.buffer(at).base) {
    const Buffer& view = program.buffer(at);
    begin += view.offset * static_cast<std::int64_t>(size_of(view.dtype));
  }
  return {begin, begin + program.buffer(buffer).bytes()};
}

bool is_flat(const Buffer& buffer) {
  return buffer.shape.size() == 1 && (buffer.dims.empty() || buffer.dims.front() == "flat");
}

std::string describe(const Program& program, BufferId buffer) {
  return "%" + std::to_string(buffer) + " '" + program.buffer(buffer).name + "'";
}

std::string describe(const Program& program, const TaskInstance& at, std::size_t instruction) {
  const Task& task = program.tasks.at(static_cast<std::size_t>(at.task));
  const Instruction& found = task.instructions.at(instruction);
  return "task '" + task.name + "'" + (at.micro_batch < 0 ? "" : " micro-batch " + std::to_string(at.micro_batch)) +
         ", instruction " + std::to_string(instruction) + " " + work_name(found) + " '" + found.name + "'";
}

void for_each_instruction(
    const Program& program,
    const std::function<void(const TaskInstance& at, std::size_t index, const Instruction& instruction)>& visit) {
  for (const TaskInstance& at : program.schedule) {
    const Task& task = program.tasks.at(static_cast<std::size_t>(at.task));
    for (std::size_t i = 0; i < task.instructions.size(); ++i) {
      if (at.runs(task.instructions[i])) visit(at, i, task.instructions[i]);
    }
  }
}

void for_each_instruction(
    const Program& program, std::uint64_t step,
    const std::function<void(const TaskInstance& at, std::size_t index, const Instruction& instruction)>& visit) {
  for_each_instruction(program, [&](const TaskInstance& at, std::size_t index, const Instruction& instruction) {
    if (instruction.when.holds(step)) visit(at, index, instruction);
  });
}

}  // namespace strata::host
