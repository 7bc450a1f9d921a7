#include "runtime/launcher.hpp"

#include <algorithm>

namespace strata::host {
namespace {

/// Combines a communication's logical id and its micro-batch to one number, by which ranks match calls.
std::uint64_t call_id(const Instruction& instruction, int micro_batch) {
  return communication_id(instruction) + 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>(micro_batch + 1);
}

}  // namespace

Launcher::Launcher(const RankContext& context, const PreparedProgram& prepared)
    : context_(context),
      program_(context.program),
      transfers_(context.offload == nullptr ? nullptr
                                            : std::make_unique<TransferEngine>(context.device, *context.offload)),
      ranges_(context.program),
      operands_(prepared.most_operands),
      results_(prepared.most_results),
      staging_(context.device.allocate_host(prepared.staging_bytes)) {}

void Launcher::wait(const PreparedInstruction& prepared, int micro_batch) {
  ranges_.for_each_wait(*prepared.instruction, micro_batch, [this](const ByteRange& range) { requests_.wait(range); });
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
  if (!context_.device.is_host_memory()) return load_to(staging(prepared, micro_batch));
  context_.device.synchronize(StreamKind::compute);
  load_to(memory(buffer.id, micro_batch));
}

void Launcher::copy_input(const PreparedInstruction& prepared, int micro_batch) {
  if (context_.device.is_host_memory()) return;
  const Buffer& buffer = program_.buffer(prepared.instruction->outputs.front());
  context_.device.copy_from_host(StreamKind::compute, memory(buffer.id, micro_batch), staging(prepared, micro_batch),
                                 buffer.bytes());
}

void Launcher::compute(const PreparedInstruction& prepared, int micro_batch, const StepContext& context) {
  const Instruction& instruction = *prepared.instruction;
  const auto find = [&](BufferId buffer) { return memory(buffer, micro_batch); };
  std::ranges::transform(instruction.inputs, operands_.begin(), find);
  std::ranges::transform(instruction.outputs, results_.begin(), find);
  KernelArguments arguments{std::span(operands_.data(), instruction.inputs.size()),
                            std::span(results_.data(), instruction.outputs.size()), nullptr, context};
  if (instruction.workspace() >= 0) arguments.workspace = find(instruction.workspace());
  prepared.kernel->launch(arguments);
}

void Launcher::copy(const PreparedInstruction& prepared, int micro_batch) {
  const std::byte* source = memory(prepared.instruction->inputs.at(0), micro_batch);
  launch_copy(context_.device, prepared.copies, memory(prepared.instruction->outputs.at(0), micro_batch), source);
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
  call.id = call_id(instruction, micro_batch);
  call.name = &instruction.name;
  if (work.marks > 0) {
    const Buffer& sent = program_.buffer(instruction.inputs.at(1));
    call.marks = {.sent = memory(sent.id, micro_batch),
                  .received = memory(instruction.inputs.at(2), micro_batch),
                  .dtype = sent.dtype,
                  .rows = sent.elements() / program_.group_size(work) / work.marks,
                  .marks = work.marks};
  }
  requests_.add(context_.communicator.start(call), true, ranges(instruction, micro_batch));
}

void Launcher::message(const PreparedInstruction& prepared, int micro_batch) {
  const Instruction& instruction = *prepared.instruction;
  const bool sends = instruction.is<Send>();
  const Buffer& buffer = program_.buffer(sends ? instruction.inputs.at(0) : instruction.outputs.at(0));
  MessageCall call;
  call.peer = prepared.peer;
  call.data = memory(buffer.id, micro_batch);
  call.bytes = buffer.bytes();
  call.id = call_id(instruction, micro_batch);
  call.channel = sends ? instruction.as<Send>()->channel : instruction.as<Receive>()->channel;
  call.name = &instruction.name;
  requests_.add(sends ? context_.communicator.send(call) : context_.communicator.receive(call), false,
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
  call.offset = context_.plan.offset(outside.id, micro_batch);
  call.bytes = outside.bytes();
  call.name = &instruction.name;
  context_.offload->touch(call.place, call.offset + call.bytes);
  requests_.add(transfers_->start(call), false, ranges(instruction, micro_batch));
}

std::byte* Launcher::memory(BufferId buffer, int micro_batch) {
  const std::int64_t offset = context_.plan.offset(buffer, micro_batch);
  context_.arena.touch(offset + program_.buffer(buffer).bytes());
  return context_.arena.data() + offset;
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
