#pragma once

#include <array>
#include <string>

#include "ops/op_base.hpp"

/// \file
/// Windows that slide over images [batch channels height width].

namespace strata::ops {

/// Positions of dimensions in images, and in weights [result_channels channels rows columns].
inline constexpr std::size_t kOuter = 0;
inline constexpr std::size_t kChannels = 1;
inline constexpr std::size_t kHeight = 2;
inline constexpr std::size_t kWidth = 3;
inline constexpr std::size_t kImageDims = 4;

/// OpDescription::iterate: neighbours cannot be read on another rank, so the dims of pixels and of windows are whole.
inline void keep_pixels_whole(IterationSpace& space, const Node& /*node*/) {
  for (const auto* list : {&space.operands, &space.results}) {
    for (const Dims& dims : *list) {
      if (dims.size() == kImageDims) space.whole.insert(dims.begin() + kHeight, dims.end());
    }
  }
}

/// \throws VerificationError that names the node if windows of `window` pixels over x, with the attributes stride and
/// padding, do not make y.
inline void require_windows(const Graph& graph, const Node& node, const Dims& x,
                            const std::array<std::int64_t, 2>& window, const Dims& y) {
  const std::int64_t stride = node.attributes.integer("stride");
  const std::int64_t padding = node.attributes.integer("padding");
  require(stride >= 1 && padding >= 0, node,
          "stride is at least 1 and padding at least 0, found " + std::to_string(stride) + " and " +
              std::to_string(padding));
  for (const std::size_t place : {kHeight, kWidth}) {
    const std::int64_t size = window.at(place - kHeight);
    const std::int64_t pixels = graph.sizes.at(x[place]);
    const std::int64_t found = graph.sizes.at(y[place]);
    const std::int64_t room = pixels + 2 * padding - size;
    require(padding < size && room >= 0 && found == room / stride + 1, node,
            "a window of " + std::to_string(size) + " with stride " + std::to_string(stride) + " and padding " +
                std::to_string(padding) + " does not make " + std::to_string(found) + " of '" + x[place] +
                "', which has " + std::to_string(pixels));
  }
}

}  // namespace strata::ops
