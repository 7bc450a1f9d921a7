#pragma once

#include <string>
#include <vector>

#include "strata/lowering.hpp"

namespace context {

/// What the forward and the backward ring share: layouts, kernels on the keys of one hop, and messages to the next
/// rank.
///
/// K and V have exactly the ring's axis on their sequence: on hop i a rank holds the piece of the rank that stands i
/// before it. Other axes that shard the queries' sequence are gathered for K and V, and the gradients of these are
/// partial sums over them.
class RingLowering {
 public:
  RingLowering(strata::LoweringContext& context, strata::Axis axis);

  [[nodiscard]] int hops() const { return hops_; }

  /// The operand in the layout that the ring needs.
  strata::BufferId operand(int index);
  [[nodiscard]] strata::TensorType operand_type(int index) const;
  [[nodiscard]] strata::TensorType result_type(int index) const;
  /// The same dims in the type in which results of hops are added up: f32 for shorter types.
  [[nodiscard]] static strata::TensorType accumulated(const strata::TensorType& type);

  /// A buffer with the local shape of operand `index`.
  strata::BufferId like_operand(const std::string& what, int index, const strata::TensorType& type);
  strata::BufferId like_result(const std::string& what, int index, const strata::TensorType& type);

  /// The node's op with the keys of `hop`; the results have accumulated() types. Here and below, communication on the
  /// buffers of `waits` must be over before.
  void compute(int hop, std::vector<strata::BufferId> inputs, std::vector<strata::BufferId> outputs,
               std::vector<strata::BufferId> waits);
  /// Adds up what belongs to result `index`.
  void add(int index, std::vector<strata::BufferId> inputs, strata::BufferId output,
           std::vector<strata::BufferId> waits);
  /// Merges two results of attention, each with its log-sum-exp.
  void merge(std::vector<strata::BufferId> inputs, std::vector<strata::BufferId> outputs);

  /// Hands `from` to the next rank and receives `into` from the previous one.
  void pass_on(const std::string& what, strata::BufferId from, strata::BufferId into,
               std::vector<strata::BufferId> waits);

  /// Says that result `index` is in `buffer`, of its accumulated() type.
  void define(int index, strata::BufferId buffer);

 private:
  [[nodiscard]] strata::Layout layout(const strata::Dims& dims) const;
  [[nodiscard]] std::vector<strata::ShardedDim> iteration(int hop) const;
  [[nodiscard]] strata::Instruction instruction(const std::string& op) const;
  /// An op whose operands and result have the dims of result `index`.
  [[nodiscard]] strata::Instruction elementwise(const std::string& op, int index, std::vector<strata::BufferId> inputs,
                                                strata::BufferId output) const;
  [[nodiscard]] std::string label(const std::string& what) const;
  strata::BufferId like(const strata::Dims& iteration_dims, const std::string& what, const strata::TensorType& type);

  strata::LoweringContext& context_;
  strata::Axis axis_;
  int hops_;
};

}  // namespace context
