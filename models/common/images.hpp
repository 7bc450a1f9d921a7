#pragma once

#include <cstdint>
#include <string>

#include "strata/graph.hpp"

/// \file
/// Blocks of models that classify images [batch channels height width].

namespace strata::models {

/// A convolution with square strides. Its parameters are NAME.weight, and NAME.bias with a bias.
struct Convolution {
  /// Dims of the weight: channels of the result, channels of the input, rows and columns of the window.
  Dims weight;
  /// Dims of the result.
  Dims result;
  std::int64_t stride = 1;
  /// Zeros at each border of the input.
  std::int64_t padding = 0;
  bool bias = false;
  /// Standard deviation of the initial weights.
  double deviation = 0;
};

[[nodiscard]] Value convolve(GraphBuilder& builder, Value x, const std::string& name, const Convolution& shape);

/// A batch norm of images, with epsilon and momentum of PyTorch. Its parameters are NAME.weight and NAME.bias, and its
/// running averages NAME.running_mean and NAME.running_var, which evaluation reads instead of the batch's statistics.
[[nodiscard]] Value batch_norm(GraphBuilder& builder, Value x, const Dim& channels, const std::string& name);

/// The largest pixel of each square window.
struct Pooling {
  /// Dims of the result.
  Dims result;
  std::int64_t window = 2;
  std::int64_t stride = 2;
  /// Pixels around the input that no window chooses.
  std::int64_t padding = 0;
};

[[nodiscard]] Value max_pool(GraphBuilder& builder, Value x, const std::string& name, const Pooling& shape);

}  // namespace strata::models
