#include "compiler/partition/node_lowering.hpp"

#include <set>
#include <utility>

#include "compiler/check/emitted_check.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

void NodeLowering::refuse(const std::string& what) const {
  throw claimant_.error("lowers node '" + at_.node.name + "' wrongly: " + what);
}

void NodeLowering::require_layout(const std::string& what, const Dims& dims, const Layout& layout) const {
  if (layout.size() != dims.size()) {
    refuse(what + " has the dimensions [" + join(dims) + "], its layout is of " + std::to_string(layout.size()));
  }
  const Mesh& mesh = at_.model.rules.mesh();
  const Shape sizes = shape_of(dims, at_.model.graph.sizes);
  std::set<Axis> used;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    std::int64_t pieces = 1;
    for (const Axis& axis : layout[i]) {
      if (!mesh.has(axis)) refuse("the layout of " + what + " names mesh axis '" + axis + "', which no strategy adds");
      if (!used.insert(axis).second) refuse("the layout of " + what + " uses mesh axis '" + axis + "' twice");
      pieces *= mesh.size(axis);
    }
    if (sizes[i] % pieces != 0) {
      refuse("the layout of " + what + " deals dimension '" + dims[i] + "' of " + std::to_string(sizes[i]) + " to " +
             std::to_string(pieces) + " ranks");
    }
  }
}

BufferId NodeLowering::operand(int index, const Layout& layout) {
  if (index < 0 || static_cast<std::size_t>(index) >= at_.node.operands.size()) {
    refuse("it has no operand " + std::to_string(index));
  }
  const Value value = at_.node.operands[static_cast<std::size_t>(index)];
  require_layout("operand " + std::to_string(index), at_.model.graph.type(value).dims, layout);
  values_.complete(value);
  return values_.fetch(value, layout, task_, at_.node.block);
}

BufferId NodeLowering::add_buffer(const std::string& name, BufferKind kind, const TensorType& type,
                                  const Shape& shape) {
  if (type.dims.size() != shape.size()) {
    refuse("buffer '" + name + "' has " + std::to_string(shape.size()) + " sizes for the dimensions [" +
           join(type.dims) + "]");
  }
  if (const auto fault = find_fault(name, shape)) refuse(*fault);
  return builder_.add_buffer(name, kind, type.dtype, type.dims, shape);
}

ShardedDim NodeLowering::sharded_dim(const Dim& dim, std::int64_t global_size, const std::vector<Axis>& axes) const {
  return host::sharded_dim(at_.model.rules, dim, global_size, axes);
}

void NodeLowering::emit(Instruction instruction) {
  if (const auto fault = find_fault(builder_.program(), instruction)) refuse(*fault);
  for (const Axis& axis : communication_axes(instruction)) {
    if (at_.model.rules.mesh().has(axis)) continue;
    refuse("instruction '" + instruction.name + "' communicates over mesh axis '" + axis + "', which no strategy adds");
  }
  builder_.task(task_).instructions.push_back(std::move(instruction));
}

void NodeLowering::define(int index, BufferId buffer, const Layout& layout, const AxisSet& partial) {
  if (index < 0 || static_cast<std::size_t>(index) >= results_.size()) {
    refuse("it has no result " + std::to_string(index));
  }
  std::optional<Home>& result = results_[static_cast<std::size_t>(index)];
  if (result) refuse("result " + std::to_string(index) + " is defined twice");
  const Program& program = builder_.program();
  if (buffer < 0 || static_cast<std::size_t>(buffer) >= program.buffers.size()) {
    refuse("result " + std::to_string(index) + " is defined as buffer %" + std::to_string(buffer) +
           ", which is not there");
  }
  require_layout("result " + std::to_string(index), at_.node.results[static_cast<std::size_t>(index)].dims, layout);
  for (const Axis& axis : partial) {
    if (!at_.model.rules.mesh().has(axis)) {
      refuse("result " + std::to_string(index) + " is partial over mesh axis '" + axis + "', which no strategy adds");
    }
  }
  result = Home{buffer, layout, partial, Reduction::sum, task_};
}

std::vector<Home> NodeLowering::take_results() {
  std::vector<Home> homes;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i]) refuse("it does not say where result " + std::to_string(i) + " is");
    homes.push_back(std::move(*results_[i]));
  }
  return homes;
}

}  // namespace strata::host
