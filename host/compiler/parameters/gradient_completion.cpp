#include "compiler/parameters/gradient_completion.hpp"

#include <utility>

#include "compiler/parameters/bucket_collectives.hpp"

namespace strata::host {
namespace {

/// A gradient on its way to the writer, which stands at 0 of the axis.
Instruction message(InstructionKind kind, const Axis& axis, BufferId gradient, int peer, std::uint64_t id,
                    const std::string& label) {
  Instruction instruction;
  instruction.kind = kind;
  instruction.name = label + " to the writer";
  instruction.axes = {axis};
  instruction.peer = peer;
  (kind == InstructionKind::send ? instruction.inputs : instruction.outputs) = {gradient};
  instruction.id = id;
  return instruction;
}

/// The writer adds up what all ranks along the axis have; the others, which share one program, send it.
void bring_to_writer(ProgramBuilder& builder, Bucket& bucket, BufferId gradient, bool is_writer,
                     const std::string& label) {
  const Axis& axis = bucket.storage.axes.front();
  const std::uint64_t id = builder.communication_id(label + " to the writer");
  if (!is_writer) {
    bucket.completion.push_back(message(InstructionKind::send, axis, gradient, 0, id, label));
    return;
  }
  for (int from = 1; from < builder.program().mesh.size(axis); ++from) {
    const BufferId received =
        builder.add_flat(label + " received", BufferKind::communication, bucket.gradient_type, bucket.elements);
    bucket.completion.push_back(message(InstructionKind::receive, axis, received, from, id, label));
    bucket.completion.push_back(program_op("accumulate", label, {received}, {gradient}));
  }
}

}  // namespace

void plan_completion(ProgramBuilder& builder, Bucket& bucket, const RankClass& rank_class, bool lasting) {
  for (const auto& [partial, gradient] : bucket.gradients) {
    const std::string label = builder.buffer(gradient).name;
    AxisSet remaining = partial;
    BufferId complete = gradient;
    if (bucket.storage.single_writer) {
      if (remaining.erase(bucket.storage.axes.front()) > 0) {
        bring_to_writer(builder, bucket, gradient, rank_class.updates, label);
      }
      if (!rank_class.updates) continue;
    } else if (bucket.pieces > 1 && !bucket.reduces_each_micro_batch()) {
      complete = scatter_gradient(builder, bucket, gradient, remaining, label, bucket.completion);
      builder.buffer(complete).persistent = lasting;
    }
    reduce_gradient(builder, complete, remaining, label, bucket.completion);
    bucket.completed.push_back(complete);
  }
}

}  // namespace strata::host
