#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/partition/partition.hpp"
#include "compiler/partition/values.hpp"
#include "strata/lowering.hpp"

namespace strata::host {

/// The LoweringContext that the host passes to a strategy. It refuses impossible requests with a PluginError that names
/// strategy and node.
class NodeLowering final : public LoweringContext {
 public:
  struct Place {
    const PartitionRequest& request;
    ProgramBuilder& builder;
    Values& values;
    const Node& node;
    const IterationSpace& space;
    const IterationLayout& iteration;
    TaskKey task;
    const NamedStrategy& by;
  };
  explicit NodeLowering(Place place) : at_(place), results_(place.node.results.size()) {}

  [[nodiscard]] const Graph& graph() const override { return at_.request.graph; }
  [[nodiscard]] const Node& node() const override { return at_.node; }
  [[nodiscard]] const LayoutRules& rules() const override { return at_.request.rules; }
  [[nodiscard]] const IterationSpace& space() const override { return at_.space; }
  [[nodiscard]] const IterationLayout& iteration() const override { return at_.iteration; }
  BufferId operand(int index, const Layout& layout) override;
  BufferId add_buffer(const std::string& name, BufferKind kind, const TensorType& type, const Shape& shape) override;
  [[nodiscard]] ShardedDim sharded_dim(const Dim& dim, std::int64_t global_size,
                                       const std::vector<Axis>& axes) const override;
  std::uint64_t communication_id(const std::string& label) override;
  void emit(Instruction instruction) override;
  void define(int index, BufferId buffer, const Layout& layout, const AxisSet& partial) override;

  /// The defined results. \throws PluginError if the strategy did not define one.
  [[nodiscard]] std::vector<Home> take_results();

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  /// Refuses a layout that is impossible for a tensor of `dims`.
  void require_layout(const std::string& what, const Dims& dims, const Layout& layout) const;

  Place at_;
  std::vector<std::optional<Home>> results_;
};

}  // namespace strata::host
