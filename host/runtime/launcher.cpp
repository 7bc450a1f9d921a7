#include "runtime/launcher.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {
namespace {

/// Combines a communication's logical id and its micro-batch to one number, by which ranks match calls.
std::uint64_t meeting_id(const Instruction& instruction, int micro_batch) {
  return communication_id(instruction) + 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>(micro_batch + 1);
}

}  // namespace

Launcher::Launcher(const Program& program, const MemoryPlan& plan, const PreparedProgram& prepared, Device& device,
                   Communicator& communicator, Arena& arena, OffloadMemory* offload)
    : program_(program),
      plan_(plan),
      device_(device),
      communicator_(communicator),
      arena_(arena),
      offload_(offload),
      transfers_(offload == nullptr ? nullptr : std::make_unique<TransferEngine>(device, *offload)),
      ranges_(program),
      operands_(prepared.most_operands),
      results_(prepared.most_results),
      staging_(device.allocate_host(prepared.staging_bytes)) {}

void Launcher::wait(const PreparedInstruction& prepared, int micro_batch) {
  for (const BufferId buffer : prepared.instruction->waits) requests_.wait(ranges_.range(buffer, micro_batch));
}

void Launcher::launch(const PreparedInstruction& prepared, int micro_batch, const StepContext& context) {
  struct Launch {
    Launcher& launcher;
    const PreparedInstruction& prepared;
    int micro_batch;
    const StepContext& context;

    void operator()(const LoadInput&) const { launcher.copy_input(prepared, micro_batch); }
    void operator()(const Compute&) const { launcher.compute(prepared, micro_batch, context); }
    void operator()(const Copy&) const { launcher.copy(prepared, micro_batch); }
    void operator()(const Collective& work) const { launcher.collective(prepared, work, micro_batch); }
    void operator()(const Send&) const { launcher.message(prepared, micro_batch); }
    void operator()(const Receive&) const { launcher.message(prepared, micro_batch); }
    void operator()(const Transfer&) const { launcher.transfer(*prepared.instruction, micro_batch); }
  };
  std::visit(Launch{*this, prepared, micro_batch, context}, prepared.instruction->work);
}

void Launcher::load(const PreparedInstruction& prepared, int micro_batch, const StepContext& context,
                    InputSource& inputs) {
  const Instruction& instruction = *prepared.instruction;
  const Buffer& buffer = program_.buffer(instruction.outputs.front());
  dims_ = prepared.dims;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (!prepared.per_micro_batch[i]) continue;
    const std::int64_t size = dims_[i].global_size;
    for (IndexSegment& segment : dims_[i].segments) segment.global_begin += context.micro_batch * size;
    dims_[i].global_size = size * program_.micro_batches;
  }
  const auto load_to = [&](std::byte* to) { inputs.load({instruction.name, dims_, buffer.dtype, to}, context.step); };
  if (!device_.is_host_memory()) return load_to(staging(prepared, micro_batch));
  device_.synchronize(StreamKind::compute);
  load_to(memory(buffer.id, micro_batch));
}

void Launcher::copy_input(const PreparedInstruction& prepared, int micro_batch) {
  if (device_.is_host_memory()) return;
  const Buffer& buffer = program_.buffer(prepared.instruction->outputs.front());
  device_.copy_from_host(StreamKind::compute, memory(buffer.id, micro_batch), staging(prepared, micro_batch),
                         buffer.bytes());
}

void Launcher::compute(const PreparedInstruction& prepared, int micro_batch, const StepContext& context) {
  const Instruction& instruction = *prepared.instruction;
  const auto find = [&](BufferId buffer) { return memory(buffer, micro_batch); };
  std::transform(instruction.inputs.begin(), instruction.inputs.end(), operands_.begin(), find);
  std::transform(instruction.outputs.begin(), instruction.outputs.end(), results_.begin(), find);
  KernelArguments arguments{std::span(operands_.data(), instruction.inputs.size()),
                            std::span(results_.data(), instruction.outputs.size()), nullptr, context};
  if (instruction.workspace() >= 0) arguments.workspace = find(instruction.workspace());
  prepared.kernel->launch(arguments);
}

void Launcher::copy(const PreparedInstruction& prepared, int micro_batch) {
  const std::byte* source = memory(prepared.instruction->inputs.at(0), micro_batch);
  launch_copy(device_, prepared.copies, memory(prepared.instruction->outputs.at(0), micro_batch), source);
}

void Launcher::collective(const PreparedInstruction& prepared, const Collective& work, int micro_batch) {
  const Instruction& instruction = *prepared.instruction;
  const Buffer& input = program_.buffer(instruction.inputs.at(0));
  CollectiveCall call;
  call.kind = work.kind;
  call.reduction = work.reduction;
  call.dtype = input.dtype;
  call.group = prepared.group;
  call.root = work.root;
  call.input = memory(input.id, micro_batch);
  call.output = memory(instruction.outputs.at(0), micro_batch);
  call.elements = input.elements();
  call.id = meeting_id(instruction, micro_batch);
  call.name = &instruction.name;
  requests_.add(communicator_.start(call), true, ranges(instruction, micro_batch));
}

void Launcher::message(const PreparedInstruction& prepared, int micro_batch) {
  const Instruction& instruction = *prepared.instruction;
  const bool sends = instruction.is<Send>();
  const Buffer& buffer = program_.buffer(sends ? instruction.inputs.at(0) : instruction.outputs.at(0));
  MessageCall call;
  call.peer = prepared.peer;
  call.data = memory(buffer.id, micro_batch);
  call.bytes = buffer.bytes();
  call.id = meeting_id(instruction, micro_batch);
  call.channel = sends ? instruction.as<Send>()->channel : instruction.as<Receive>()->channel;
  call.name = &instruction.name;
  requests_.add(sends ? communicator_.send(call) : communicator_.receive(call), false,
                ranges(instruction, micro_batch));
}

void Launcher::transfer(const Instruction& instruction, int micro_batch) {
  const Buffer& from = program_.buffer(instruction.inputs.at(0));
  const Buffer& to = program_.buffer(instruction.outputs.at(0));
  const bool to_device = to.place == MemoryPlace::device;
  const Buffer& outside = to_device ? from : to;
  TransferCall call;
  call.to_device = to_device;
  call.device = memory(to_device ? to.id : from.id, micro_batch);
  call.place = outside.place;
  call.offset = plan_.offset(outside.id, micro_batch);
  call.bytes = outside.bytes();
  call.name = &instruction.name;
  offload_->touch(call.place, call.offset + call.bytes);
  requests_.add(transfers_->start(call), false, ranges(instruction, micro_batch));
}

std::byte* Launcher::memory(BufferId buffer, int micro_batch) {
  const std::int64_t offset = plan_.offset(buffer, micro_batch);
  arena_.touch(offset + program_.buffer(buffer).bytes());
  return arena_.data() + offset;
}

std::byte* Launcher::staging(const PreparedInstruction& prepared, int micro_batch) const {
  const std::int64_t bytes = program_.buffer(prepared.instruction->outputs.front()).bytes();
  return static_cast<std::byte*>(staging_.get()) + prepared.staging_begin + std::max(micro_batch, 0) * bytes;
}

std::vector<ByteRange> Launcher::ranges(const Instruction& instruction, int micro_batch) const {
  std::vector<ByteRange> used;
  for (const auto* buffers : {&instruction.inputs, &instruction.outputs}) {
    for (const BufferId buffer : *buffers) used.push_back(ranges_.range(buffer, micro_batch));
  }
  return used;
}

}  // namespace strata::host
