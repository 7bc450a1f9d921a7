#include "compiler/parameters/staged_bucket.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {

StagedBucket::StagedBucket(ProgramBuilder& builder, const Bucket& bucket, const std::vector<BufferId>& states) {
  stage(builder, bucket.values);
  for (const BufferId state : states) stage(builder, state);
}

void StagedBucket::stage(ProgramBuilder& builder, BufferId buffer) {
  const Buffer home = builder.buffer(buffer);
  if (home.place == MemoryPlace::device) return;
  const BufferId copy = builder.add_flat(home.name + " on the device", home.kind, home.dtype, home.elements());
  copies_.push_back({buffer, copy, home.name});
}

BufferId StagedBucket::on_device(BufferId buffer) const {
  const auto found =
      std::find_if(copies_.begin(), copies_.end(), [buffer](const Copy& each) { return each.home == buffer; });
  return found == copies_.end() ? buffer : found->copy;
}

void StagedBucket::fetch(const std::vector<BufferId>& after, std::vector<Instruction>& instructions) const {
  std::vector<BufferId> waits = after;
  for (const Copy& each : copies_) {
    Instruction instruction = transfer(each.home, each.copy, each.name + " to the device");
    instruction.waits = std::exchange(waits, {});
    instructions.push_back(std::move(instruction));
  }
}

void StagedBucket::store(std::vector<Instruction>& instructions) const {
  for (const Copy& each : copies_) {
    instructions.push_back(transfer(each.copy, each.home, each.name + " from the device"));
  }
}

std::vector<BufferId> StagedBucket::copies() const {
  std::vector<BufferId> copies;
  copies.reserve(copies_.size());
  for (const Copy& each : copies_) copies.push_back(each.copy);
  return copies;
}

}  // namespace strata::host
