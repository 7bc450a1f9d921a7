#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/lowering.hpp"

namespace context {

/// Shared by the forward and the backward ring: layouts, kernels for the keys of one hop, and messages to the next
/// rank.
///
/// The sequence dim of K and V is sharded over exactly the ring's axis. On hop i a rank holds the piece of the rank i
/// positions before it. If other axes shard the sequence of the queries, K and V are gathered over them, and the
/// gradients of K and V are partial over them.
class RingLowering {
 public:
  RingLowering(strata::LoweringContext& context, strata::Axis axis);

  [[nodiscard]] int ranks() const { return ranks_; }
  /// The hops in which a query of some rank sees a key, in ascending order. Hop 0 is always one of them.
  [[nodiscard]] const std::vector<int>& hops() const { return hops_; }

  /// The buffers of all operands in the layouts that the ring needs.
  [[nodiscard]] std::vector<strata::BufferId> operands();
  /// The operand with the documents of the keys, if there is one.
  [[nodiscard]] std::optional<int> key_documents() const;
  [[nodiscard]] strata::TensorType operand_type(int index) const;
  [[nodiscard]] strata::TensorType result_type(int index) const;
  /// `type` with the element type in which results of hops are accumulated: f32 for shorter types.
  [[nodiscard]] static strata::TensorType accumulated(const strata::TensorType& type);

  /// Adds a buffer with the local shape of operand (or result) `index`.
  strata::BufferId like_operand(const std::string& what, int index, const strata::TensorType& type);
  strata::BufferId like_result(const std::string& what, int index, const strata::TensorType& type);

  /// Emits the node's op with the keys of `hop`. Results have accumulated() types. Here and below, the instruction
  /// waits for communication on the buffers `waits`.
  void compute(int hop, std::vector<strata::BufferId> inputs, std::vector<strata::BufferId> outputs,
               std::vector<strata::BufferId> waits);
  /// Emits the sum of several contributions to result `index`.
  void add(int index, std::vector<strata::BufferId> inputs, strata::BufferId output,
           std::vector<strata::BufferId> waits);
  /// Emits the merge of two attention results, each with its log-sum-exp.
  void merge(std::vector<strata::BufferId> inputs, std::vector<strata::BufferId> outputs);

  /// Sends `from` to the rank `distance` positions ahead and receives `into` from the rank as far behind.
  void pass_on(const std::string& what, int distance, strata::BufferId from, strata::BufferId into,
               std::vector<strata::BufferId> waits);

  /// Defines result `index`: it is in `buffer` and has its accumulated() type.
  void define(int index, strata::BufferId buffer);

 private:
  [[nodiscard]] strata::Layout layout(const strata::Dims& dims) const;
  /// The keys of `hop`, with the iteration dimension of the queries.
  [[nodiscard]] strata::ShardedDim keys(int hop) const;
  [[nodiscard]] std::vector<strata::ShardedDim> iteration(int hop) const;
  [[nodiscard]] std::vector<int> useful_hops() const;
  [[nodiscard]] strata::Instruction instruction(strata::Compute work, std::vector<strata::BufferId> inputs,
                                                std::vector<strata::BufferId> outputs,
                                                std::vector<strata::BufferId> waits) const;
  /// An op whose operands and result have the dims of result `index`.
  [[nodiscard]] strata::Compute elementwise(const std::string& op, int index, std::size_t operands) const;
  [[nodiscard]] std::string label(const std::string& what) const;
  strata::BufferId like(const strata::Dims& iteration_dims, const std::string& what, const strata::TensorType& type);

  strata::LoweringContext& context_;
  strata::Axis axis_;
  int ranks_;
  std::vector<int> hops_;
};

}  // namespace context
