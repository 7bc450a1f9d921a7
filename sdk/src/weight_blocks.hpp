#pragma once

#include <algorithm>
#include <cstdint>

#include "strata/internal/weight_blocks.hpp"

namespace strata {

/// Where the code of one number lies: its byte within the run, and which half of it for nf4.
struct CodePlace {
  std::int64_t byte = 0;
  bool is_upper = false;
};

/// The place of number `index` of a run of `length`.
inline CodePlace code_place(const WeightBlocks& blocks, std::int64_t length, std::int64_t index) {
  if (blocks.code == WeightCode::int8) return {index, false};
  const std::int64_t begin = index / blocks.size * blocks.size;
  const std::int64_t half = (std::min(blocks.size, length - begin) + 1) / 2;
  const std::int64_t within = index - begin;
  return {begin / 2 + within % half, within >= half};
}

/// The number in [-1, 1] that a code means.
inline double coded_number(WeightCode code, std::int8_t byte, bool is_upper) {
  if (code == WeightCode::int8) return byte / 127.0;
  const auto bits = static_cast<std::uint8_t>(byte);
  return kNormalFloat4[is_upper ? bits >> 4U : bits & 0xFU];
}

}  // namespace strata
