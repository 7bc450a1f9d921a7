#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/partition/partition.hpp"
#include "compiler/partition/values.hpp"
#include "strata/lowering.hpp"

namespace strata::host {

/// A node with what the host knows about it. `notes`: what strategies say about it.
struct LoweredNode {
  const PlacedModel& model;
  const Node& node;
  const IterationSpace& space;
  const IterationLayout& iteration;
  const PositionMixing* mixing;
  std::set<std::string>& notes;
};

/// What strategies are told about a node. Base: NodeToLower or LoweringContext.
template <class Base>
class DescribedNode : public Base {
 public:
  DescribedNode(LoweredNode at, std::string strategy) : at_(at), strategy_(std::move(strategy)) {}

  [[nodiscard]] const Graph& graph() const override { return at_.model.graph; }
  [[nodiscard]] const Node& node() const override { return at_.node; }
  [[nodiscard]] const LayoutRules& rules() const override { return at_.model.rules; }
  [[nodiscard]] const IterationSpace& space() const override { return at_.space; }
  [[nodiscard]] const IterationLayout& iteration() const override { return at_.iteration; }
  [[nodiscard]] const PositionMixing* mixing() const override { return at_.mixing; }
  void note(const std::string& sentence) override { at_.notes.insert(strategy_ + ": " + sentence); }

 protected:
  LoweredNode at_;

 private:
  std::string strategy_;
};

/// The node that the host offers to a strategy.
using OfferedNode = DescribedNode<NodeToLower>;

/// The LoweringContext that the host passes to a strategy. It refuses impossible requests with a PluginError that names
/// strategy and node.
class NodeLowering final : public DescribedNode<LoweringContext> {
 public:
  struct Place {
    const LoweredNode& node;
    ProgramBuilder& builder;
    Values& values;
    TaskKey task;
    const NamedStrategy& claimant;
  };
  explicit NodeLowering(const Place& place)
      : DescribedNode(place.node, place.claimant.name),
        builder_(place.builder),
        values_(place.values),
        task_(place.task),
        claimant_(place.claimant),
        results_(place.node.node.results.size()) {}

  BufferId operand(int index, const Layout& layout) override;
  BufferId add_buffer(const std::string& name, BufferKind kind, const TensorType& type, const Shape& shape) override;
  [[nodiscard]] ShardedDim sharded_dim(const Dim& dim, std::int64_t global_size,
                                       const std::vector<Axis>& axes) const override;
  [[nodiscard]] const Mesh& mesh() const override { return at_.model.rules.mesh(); }
  [[nodiscard]] const std::string& label() const override { return at_.node.name; }
  BufferId add_flat(const std::string& name, DType dtype, std::int64_t elements) override {
    return add_buffer(name, BufferKind::communication, {{"flat"}, dtype}, {elements});
  }
  std::uint64_t communication_id(const std::string& label) override { return builder_.communication_id(label); }
  void emit(Instruction instruction) override;
  void define(int index, BufferId buffer, const Layout& layout, const AxisSet& partial) override;

  /// The defined results. \throws PluginError if the strategy did not define one.
  [[nodiscard]] std::vector<Home> take_results();

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  /// Refuses a layout that is impossible for a tensor of `dims`.
  void require_layout(const std::string& what, const Dims& dims, const Layout& layout) const;

  ProgramBuilder& builder_;
  Values& values_;
  TaskKey task_;
  const NamedStrategy& claimant_;
  std::vector<std::optional<Home>> results_;
};

}  // namespace strata::host
