#include "compiler/parameters/weight_average.hpp"

#include <iterator>
#include <utility>

#include "compiler/optimizer_groups.hpp"
#include "compiler/parameters/optimizer_states.hpp"
#include "compiler/placement/bucket_collectives.hpp"
#include "strata/bucket_work.hpp"

namespace strata::host {
namespace {

/// A buffer of the device in place of `home`, or `home` if that is on the device.
BufferId on_device(ProgramBuilder& builder, BufferId home) {
  const Buffer of = builder.buffer(home);
  if (of.place == MemoryPlace::device) return home;
  return builder.add_flat(of.name + " on the device", of.kind, of.dtype, of.elements());
}

/// The instructions that make the values of one bucket.
class AverageAsValues {
 public:
  AverageAsValues(ProgramBuilder& builder, const Bucket& bucket, std::vector<Instruction>& instructions)
      : builder_(builder), bucket_(bucket), instructions_(instructions) {}

  void copy() {
    const BufferId home = add_average(builder_, bucket_);
    const BufferId average = on_device(builder_, home);
    if (average != home) instructions_.push_back(transfer(home, average, name_of(home) + " to the device"));
    if (bucket_.updates_piece_of_whole()) {
      const BufferId piece = builder_.add_flat(bucket_.name + " piece of the average", BufferKind::parameter,
                                               bucket_.type, bucket_.piece_elements());
      round(average, piece);
      gather_into(builder_, piece, bucket_.values, bucket_.storage.axes, bucket_.name, instructions_);
      return;
    }
    const BufferId values = on_device(builder_, bucket_.values);
    round(average, values);
    if (values == bucket_.values) return;
    instructions_.push_back(transfer(values, bucket_.values, name_of(bucket_.values) + " from the device"));
  }

  void broadcast() {
    const Axis& axis = bucket_.storage.axes.front();
    instructions_.push_back(builder_.collective({.kind = CollectiveKind::broadcast, .axes = {axis}}, bucket_.values,
                                                bucket_.values, bucket_.name + " broadcast " + axis));
  }

 private:
  [[nodiscard]] std::string name_of(BufferId buffer) const { return builder_.buffer(buffer).name; }

  void round(BufferId average, BufferId values) {
    instructions_.push_back(weighted_sum(bucket_.name + " average as values", {{1, average}}, values));
  }

  ProgramBuilder& builder_;
  const Bucket& bucket_;
  std::vector<Instruction>& instructions_;
};

}  // namespace

BufferId add_average(ProgramBuilder& builder, const Bucket& bucket) {
  for (const std::size_t index : bucket.parameters) {
    StoredParameter& parameter = builder.program().parameters[index];
    parameter.traits[kAverageState] = {.begins_as_value = true, .unsynchronized = parameter.unsynchronized};
  }
  return add_optimizer_state(builder, bucket, kAverageState);
}

Instruction update_average(const Bucket& bucket, BufferId average, BufferId values, double decay) {
  return weighted_sum(bucket.name + " average", {{decay, average}, {1 - decay, values}}, average);
}

void emit_averages_as_values(ProgramBuilder& builder, const std::vector<Bucket>& buckets, const RankClass& rank_class,
                             std::int64_t period) {
  std::vector<Instruction> made;
  for (const Bucket& bucket : buckets) {
    AverageAsValues average(builder, bucket, made);
    if (rank_class.updates) average.copy();
    if (bucket.storage.single_writer) average.broadcast();
  }
  for (Instruction& each : made) each.when = {.period = period, .phase = 0};
  std::vector<Instruction>& prologue = builder.task(Task::Kind::prologue).instructions;
  prologue.insert(prologue.begin(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
}

}  // namespace strata::host
