#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/parameters/buckets.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/program/task_key.hpp"

namespace strata::host {

/// Parameters that ranks store in pieces (Sharding::values), brought together for each block that uses them: from other
/// ranks, and from outside of the device where they lie there. A bucket is gathered once for a task and block, ahead of
/// its use, and freed after it.
class GatheredValues {
 public:
  GatheredValues(ProgramBuilder& builder, const std::vector<Bucket>& buckets, bool training);

  /// True if the program's parameter `index` is stored in pieces.
  [[nodiscard]] bool contains(std::size_t index) const { return places_.contains(index); }
  /// The parameter's values for work of `block` in `task`; `like` has its shape.
  BufferId view(std::size_t index, const Buffer& like, const TaskKey& task, int block);
  /// Puts the gathers into their tasks, each as many blocks ahead of its use as its strategy wants.
  void insert();

 private:
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;
  };
  using Key = std::tuple<std::size_t, TaskKey, int>;  // bucket, task, block
  /// Instructions that go a number of blocks ahead of the one that they work for.
  struct Gather {
    TaskKey task;
    int block = 0;
    int prefetch = 0;
    std::vector<Instruction> instructions;
  };

  BufferId gather(std::size_t bucket, const TaskKey& task, int block);
  /// This rank's piece on the device.
  BufferId fetch(const Bucket& bucket, const TaskKey& task, int block, const std::string& label);
  static void insert(Task& task, const std::vector<const Gather*>& gathers);

  ProgramBuilder& builder_;
  const std::vector<Bucket>& buckets_;
  bool training_;
  std::map<std::size_t, Place> places_;
  std::map<Key, BufferId> gathered_;
  /// What the forward pass keeps for the backward pass where the bucket has secondary axes.
  std::map<Key, BufferId> secondary_;
  std::map<std::pair<Key, std::size_t>, BufferId> views_;
  std::vector<Gather> gathers_;
};

}  // namespace strata::host
