#include "compiler/parameters/gradient_completion.hpp"

#include <utility>

#include "compiler/placement/bucket_collectives.hpp"
#include "strata/compiler_ops.hpp"

namespace strata::host {
namespace {

/// The writer is the rank at coordinate 0 of the axis. It receives and sums the gradients of all ranks along the axis.
/// The other ranks, which share one program, send theirs.
void send_to_writer(ProgramBuilder& builder, const Bucket& bucket, BufferId gradient, bool is_writer,
                    const std::string& label, std::vector<Instruction>& instructions) {
  const Axis& axis = bucket.storage.axes.front();
  const std::string name = label + " to the writer";
  const std::uint64_t id = builder.communication_id(name);
  if (!is_writer) {
    instructions.push_back({.name = name, .work = Send{{axis, 0}, id}, .inputs = {gradient}});
    return;
  }
  for (int from = 1; from < builder.mesh().size(axis); ++from) {
    const BufferId received =
        builder.add_flat(label + " received", BufferKind::communication, bucket.gradient_type, bucket.elements);
    instructions.push_back({.name = name, .work = Receive{{axis, from}, id}, .outputs = {received}});
    instructions.push_back(flat_op(ops::kAccumulate, label, {received}, {gradient}));
  }
}

}  // namespace

Completion plan_completion(ProgramBuilder& builder, const GradientBucket& trained, const RankClass& rank_class,
                           bool lasting) {
  const Bucket& bucket = trained.bucket;
  Completion completion;
  for (const auto& [partial, gradient] : trained.gradients) {
    const std::string label = builder.buffer(gradient).name;
    AxisSet remaining = partial;
    BufferId complete = gradient;
    if (bucket.storage.single_writer) {
      if (remaining.erase(bucket.storage.axes.front()) > 0) {
        send_to_writer(builder, bucket, gradient, rank_class.updates, label, completion.instructions);
      }
      if (!rank_class.updates) continue;
    } else if (bucket.pieces > 1 && !bucket.reduces_each_micro_batch()) {
      complete = scatter_gradient(builder, bucket, gradient, remaining, label, completion.instructions);
      builder.buffer(complete).persistent = lasting;
    }
    reduce_gradient(builder, complete, remaining, label, completion.instructions);
    completion.completed.push_back(complete);
  }
  return completion;
}

}  // namespace strata::host
