#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/kernel.hpp"
#include "strata/op.hpp"

/// \file
/// Ops of optimizers that map square matrices to square matrices.

namespace preconditioned {

/// An op on the square matrices of the last dims of its operand. The attribute `side` is the number of dims of a side.
class SquareMatrixOp final : public strata::OpDefinition {
 public:
  SquareMatrixOp(std::string name, std::string documentation)
      : name_(std::move(name)), documentation_(std::move(documentation)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::string documentation() const override { return documentation_; }
  [[nodiscard]] std::vector<strata::TensorType> infer(const strata::Graph& graph,
                                                      const strata::Node& node) const override {
    const strata::TensorType x = graph.type(node.operands.at(0));
    const std::int64_t side = node.attributes.integer("side");
    if (side < 1 || 2 * side > static_cast<std::int64_t>(x.dims.size())) {
      throw strata::VerificationError("op " + node.op + " '" + node.name + "': " + to_string(x) +
                                      " has no square matrices of " + std::to_string(side) + " dims a side");
    }
    return {x};
  }
  [[nodiscard]] strata::IterationSpace iteration(const strata::Graph& graph, const strata::Node& node) const override {
    strata::IterationSpace space = OpDefinition::iteration(graph, node);
    const strata::Dims& dims = space.results[0];
    space.whole.insert(dims.end() - 2 * node.attributes.integer("side"), dims.end());
    return space;
  }

 private:
  std::string name_;
  std::string documentation_;
};

/// Rows of the square matrices, which follow one another.
inline std::int64_t side_of(const strata::OpInstance& op) {
  std::int64_t size = 1;
  const strata::Shape& shape = op.results[0].shape;
  for (auto d = shape.end() - op.attributes.integer("side"); d != shape.end(); ++d) size *= *d;
  return size;
}

}  // namespace preconditioned
