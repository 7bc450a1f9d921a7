#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/op.hpp"

/// An op of a plugin: x -> 2 · x.
class Doubled final : public strata::OpDefinition {
 public:
  explicit Doubled(int version) : version_(version) {}
  [[nodiscard]] std::string name() const override { return "doubled"; }
  [[nodiscard]] int version() const override { return version_; }
  [[nodiscard]] std::string documentation() const override { return "x -> 2 · x."; }
  [[nodiscard]] std::vector<strata::TensorType> infer(const strata::Graph& graph,
                                                      const strata::Node& node) const override {
    return {graph.type(node.operands.at(0))};
  }

 private:
  int version_;
};
