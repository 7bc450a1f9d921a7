#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Gathers parameters that ranks store in pieces (Sharding::values) for each block that uses them. Offloaded pieces are
/// transferred to the device first. A bucket is gathered once per task and block, ahead of its use, and freed after it.
/// Without ParameterStorage::reshard_after_forward it is gathered once, when a training step starts, or ahead of the
/// first block of another pass that uses it.
class GatheredValues {
 public:
  GatheredValues(ProgramBuilder& builder, const std::vector<Bucket>& buckets, bool training);

  /// True if parameter number `index` of the program is stored in pieces.
  [[nodiscard]] bool contains(std::size_t index) const { return places_.contains(index); }
  /// The gathered values of a parameter for `block` in `task`. `like` has the shape of the result.
  BufferId view(std::size_t index, const Buffer& like, const TaskKey& task, int block);
  /// Inserts the gathers into their tasks, each `prefetch` blocks ahead of its use.
  void insert();

 private:
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;
  };
  using Key = std::tuple<std::size_t, TaskKey, int>;  // bucket, task, block or -1 for all blocks

  /// Instructions that are inserted `prefetch` blocks ahead of the block that they serve.
  struct Gather {
    TaskKey task;
    int block = 0;
    int prefetch = 0;
    std::vector<Instruction> instructions;
  };

  BufferId gather_for_step(std::size_t bucket, const Key& key);
  /// `block`: the one that uses the values first.
  BufferId gather(std::size_t bucket, const Key& key, int block);
  /// This rank's piece on the device. Appends its transfer if it is offloaded.
  BufferId fetch(const Bucket& bucket, const std::string& label, std::vector<Instruction>& instructions);
  static void insert(Task& task, const std::vector<const Gather*>& gathers);

  ProgramBuilder& builder_;
  const std::vector<Bucket>& buckets_;
  bool training_;
  std::map<std::size_t, Place> places_;
  std::map<Key, BufferId> gathered_;
  /// Pieces over the secondary axes that the forward pass keeps for the backward pass.
  std::map<Key, BufferId> secondary_;
  std::map<std::pair<Key, std::size_t>, BufferId> views_;
  std::vector<Gather> gathers_;
};

}  // namespace strata::host
