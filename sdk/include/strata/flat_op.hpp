#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "strata/op.hpp"

namespace strata {

/// An op on flat buffers that never occurs in graphs, such as a part of an optimizer's update.
class FlatOp : public OpDefinition {
 public:
  FlatOp(std::string name, std::string documentation, FlatSignature signature)
      : name_(std::move(name)), documentation_(std::move(documentation)), signature_(std::move(signature)) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::string documentation() const override { return documentation_; }
  [[nodiscard]] std::vector<TensorType> infer(const Graph& /*graph*/, const Node& node) const override {
    throw VerificationError("op " + node.op + " '" + node.name + "': works on flat buffers, not in graphs");
  }
  /// A step that is skipped keeps the values of an update and the states, which are in the results.
  [[nodiscard]] bool reads_result(int result) const override {
    return signature_.is_update || (!signature_.states.empty() && result >= signature_.outputs);
  }
  [[nodiscard]] std::optional<FlatSignature> flat_signature(const Attributes& /*attributes*/) const override {
    return signature_;
  }

 private:
  std::string name_;
  std::string documentation_;
  FlatSignature signature_;
};

}  // namespace strata
