/// halo: the sequence over an axis. Where the op "neighbour" needs a token of another rank, only that token travels.

#include "halo_ops.hpp"
#include "strata/strategy.hpp"

namespace halo {
namespace {

using namespace strata;

constexpr const char* kAxis = "halo";

/// Makes instructions of one "neighbour": take the edge, send it to the next rank, receive that of the rank before,
/// shift.
void lower_neighbour(LoweringContext& context) {
  const Node& node = context.node();
  const TensorType type = node.results.at(0);
  const std::int64_t offset = node.attributes.integer("offset");
  const TensorType edge_type{{type.dims[0], type.dims[2]}, type.dtype};
  const auto layout_of = [&](const Dims& dims) {
    Layout layout;
    for (const Dim& dim : dims) layout.push_back(context.iteration().at(dim));
    return layout;
  };
  const auto buffer = [&](const std::string& what, const TensorType& of) {
    return context.add_buffer(node.name + " " + what, BufferKind::activation, of,
                              context.rules().local_shape(of.dims, layout_of(of.dims)));
  };
  const auto compute = [&](const char* op, std::vector<Dims> operands, const Dims& result) {
    Compute work{.op = op, .attributes = node.attributes};
    for (const Dim& dim : type.dims) {
      const std::int64_t size = context.graph().sizes.at(dim);
      work.iteration.push_back(context.sharded_dim(dim, size, context.iteration().at(dim)));
    }
    work.operand_dims = std::move(operands);
    work.result_dims = {result};
    return work;
  };

  const BufferId x = context.operand(0, layout_of(type.dims));
  const BufferId edge = buffer("edge", edge_type);
  const BufferId received = buffer("edge of the neighbour", edge_type);
  const BufferId y = buffer("result", type);
  context.emit(
      {.name = node.name, .work = compute(kEdge, {type.dims}, edge_type.dims), .inputs = {x}, .outputs = {edge}});
  // Every rank of the ring sends and receives. The rank at the end of the sequence ignores what it receives.
  const std::string label = node.name + " edge";
  const std::uint64_t id = context.communication_id(label);
  const auto step = static_cast<int>(offset);
  context.emit({.name = label, .work = Send{{kAxis, step, true}, id}, .inputs = {edge}});
  context.emit({.name = label, .work = Receive{{kAxis, -step, true}, id}, .outputs = {received}});
  context.emit({.name = node.name,
                .work = compute(kShift, {type.dims, edge_type.dims}, type.dims),
                .inputs = {x, received},
                .outputs = {y}});
  context.define(0, y, layout_of(type.dims), {});
}

class Halo final : public Strategy {
 public:
  explicit Halo(int size) : size_(size) {}

  [[nodiscard]] std::vector<MeshAxis> axes() const override { return {{kAxis, size_}}; }
  [[nodiscard]] std::vector<Rule> rules() const override { return {{"seq", kAxis, 20, Distribution::block, {}}}; }

  /// Claims a "neighbour" whose tokens are over this axis only. The partitioner gathers the sequence for all others.
  [[nodiscard]] Lowering lower(NodeToLower& node) const override {
    const auto seq = node.iteration().find("seq");
    if (node.node().op != "neighbour" || seq == node.iteration().end() || seq->second != std::vector<Axis>{kAxis})
      return {};
    return lower_neighbour;
  }

 private:
  int size_;
};

class HaloFactory final : public StrategyFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  void provide(Registration& registration, const Options& /*options*/) const override { register_ops(registration); }

  [[nodiscard]] std::unique_ptr<Strategy> create(const Options& options) const override {
    return std::make_unique<Halo>(static_cast<int>(options.integer("size")));
  }

 private:
  OptionSchema schema_{option::axis_size("Ranks along the axis: parts of every sequence.")};
};

}  // namespace
}  // namespace halo

STRATA_PLUGIN(strategy, "halo", "1.0.0", "MIT", "The sequence over an axis, with halo exchanges.", halo::HaloFactory);
