#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "strata/huggingface.hpp"

namespace strata::models {

/// Lists the tensors of a model's files, whose names are those of the parameters.
class TensorList {
 public:
  /// `transposed`: the file has the matrix as [out in].
  void add(const std::string& name, Shape shape, bool transposed = false) {
    list_.push_back({.name = name, .parameter = name, .shape = std::move(shape), .transposed = transposed});
  }

  /// A layer norm with a gain and a bias for each of `features`.
  void add_norm(const std::string& name, std::int64_t features) {
    add(name + ".weight", {features});
    add(name + ".bias", {features});
  }

  /// A linear layer of PyTorch with a bias.
  void add_linear(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {out, in}, true);
    add(name + ".bias", {out});
  }

  [[nodiscard]] std::vector<HuggingFaceTensor> take() { return std::move(list_); }

 protected:
  std::vector<HuggingFaceTensor> list_;
};

}  // namespace strata::models
