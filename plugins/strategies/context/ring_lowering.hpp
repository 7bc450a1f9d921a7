#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/lowering.hpp"

namespace context {

/// Shared by the forward and the backward ring: layouts, kernels for the keys of one hop, and messages to the next
/// rank.
///
/// The keys are sharded over exactly the ring's axis. On hop i a rank holds the piece of the rank i positions before
/// it. If other axes shard the queries, the keys are gathered over them, and results along the keys, such as their
/// gradients, are partial over them.
class RingLowering {
 public:
  RingLowering(strata::LoweringContext& context, strata::Axis axis);

  [[nodiscard]] int ranks() const { return ranks_; }
  /// The hops in which a query of some rank sees a key, in ascending order. Hop 0 is always one of them.
  [[nodiscard]] const std::vector<int>& hops() const { return hops_; }

  /// The buffers of all operands in the layouts that the ring needs.
  [[nodiscard]] std::vector<strata::BufferId> operands();
  [[nodiscard]] const strata::PositionMixing& mixing() const { return *context_.mixing(); }
  /// The operands along the keys.
  [[nodiscard]] std::vector<int> key_operands() const;
  [[nodiscard]] int result_count() const { return static_cast<int>(context_.node().results.size()); }
  [[nodiscard]] bool is_along_keys(int result) const;

  /// Adds a buffer with the type and the local shape of operand `index`.
  strata::BufferId like_operand(const std::string& what, int index);
  /// Adds a buffer with the local shape of result `index`, and the type in which results of hops are accumulated: f32
  /// for shorter types.
  strata::BufferId like_result(const std::string& what, int index);

  /// Emits the node's op with the keys of `hop`. `outputs`: made by like_result(). Here and below, the instruction
  /// waits for communication on the buffers `waits`.
  void compute(int hop, std::vector<strata::BufferId> inputs, std::vector<strata::BufferId> outputs,
               std::vector<strata::BufferId> waits);
  /// Emits the sum of several contributions to result `index`.
  void add(int index, std::vector<strata::BufferId> inputs, strata::BufferId output,
           std::vector<strata::BufferId> waits);
  /// Emits the merge of two results of Merge::log_sum_exp. All three are in the order of the op's results.
  void merge(const std::vector<strata::BufferId>& one, const std::vector<strata::BufferId>& other,
             const std::vector<strata::BufferId>& merged);

  /// Sends `from` to the rank `distance` positions ahead and receives `into` from the rank as far behind.
  void pass_on(const std::string& what, int distance, strata::BufferId from, strata::BufferId into,
               std::vector<strata::BufferId> waits);

  /// Defines result `index`: it is in `buffer`, which like_result() made.
  void define(int index, strata::BufferId buffer);

 private:
  [[nodiscard]] const strata::TensorType& result_type(int index) const;
  [[nodiscard]] strata::TensorType accumulated_type(int index) const;
  [[nodiscard]] strata::Layout layout(const strata::Dims& dims) const;
  /// The dimension of the operands along the keys.
  [[nodiscard]] strata::Dim key_dim() const;
  /// Global size of an iteration dimension.
  [[nodiscard]] std::int64_t size_of(const strata::Dim& dim) const;
  /// The keys of `hop`.
  [[nodiscard]] strata::ShardedDim keys(int hop) const;
  [[nodiscard]] std::vector<strata::ShardedDim> iteration(int hop) const;
  [[nodiscard]] std::vector<int> useful_hops() const;
  [[nodiscard]] strata::Instruction instruction(strata::Compute work, std::vector<strata::BufferId> inputs,
                                                std::vector<strata::BufferId> outputs,
                                                std::vector<strata::BufferId> waits) const;
  /// An op whose operands and result have the dims of result `index`.
  [[nodiscard]] strata::Compute elementwise(const std::string& op, int index, std::size_t operands) const;
  /// Emits a cast of `from`, which has the dims of result `index`.
  void cast(int index, strata::BufferId from, strata::BufferId into, strata::DType dtype);
  [[nodiscard]] std::string label(const std::string& what) const;
  strata::BufferId like(const strata::Dims& iteration_dims, const std::string& what, const strata::TensorType& type);

  strata::LoweringContext& context_;
  strata::Axis axis_;
  int ranks_;
  std::vector<int> hops_;
};

/// Lowers an op that mixes positions, such as attention or its gradient, to a ring over `axis`. In every hop a rank
/// computes with the keys that it holds. Meanwhile it sends them to the next rank and receives those of the previous
/// rank in a second buffer. The node has no ring_obstacle().
void lower_ring_attention(strata::LoweringContext& context, const strata::Axis& axis);

}  // namespace context
