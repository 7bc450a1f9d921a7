#include "compiler/partition/node_lowering.hpp"

#include <utility>

#include "strata/error.hpp"

namespace strata::host {

BufferId NodeLowering::operand(int index, const Layout& layout) {
  const Value value = at_.node.operands.at(static_cast<std::size_t>(index));
  at_.values.complete(value);
  return at_.values.fetch(value, layout, at_.task, at_.node.block);
}

BufferId NodeLowering::add_buffer(const std::string& name, BufferKind kind, const TensorType& type,
                                  const Shape& shape) {
  return at_.builder.add_buffer(name, kind, type.dtype, type.dims, shape);
}

ShardedDim NodeLowering::sharded_dim(const Dim& dim, std::int64_t global_size, const std::vector<Axis>& axes) const {
  return host::sharded_dim(at_.request.rules, dim, global_size, axes);
}

std::uint64_t NodeLowering::communication_id(const std::string& label) { return at_.builder.communication_id(label); }

void NodeLowering::emit(Instruction instruction) {
  at_.builder.task(at_.task.kind, at_.task.chunk).instructions.push_back(std::move(instruction));
}

void NodeLowering::define(int index, BufferId buffer, const Layout& layout, const AxisSet& partial) {
  results_.at(static_cast<std::size_t>(index)) = Home{buffer, layout, partial, Reduction::sum, at_.task};
}

std::vector<Home> NodeLowering::take_results(const std::string& by) {
  std::vector<Home> homes;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i]) {
      throw VerificationError(by + " does not say where result " + std::to_string(i) + " of node '" + at_.node.name +
                              "' is");
    }
    homes.push_back(std::move(*results_[i]));
  }
  return homes;
}

}  // namespace strata::host
