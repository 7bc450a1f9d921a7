#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// Bytes of a rank's device that are alive in a step, by the purpose of their buffers.
struct MemoryCurve {
  /// Some moments of the step, ascending: the number of the instruction. The fullest one is among them.
  std::vector<int> moments;
  /// Instructions of the step.
  int instructions = 0;
  /// Bytes at these moments.
  std::map<BufferKind, std::vector<std::int64_t>> kinds;

  [[nodiscard]] std::int64_t total(std::size_t moment) const;
  [[nodiscard]] std::int64_t peak() const;
};

/// The memory of a program's step at up to `moments` moments, each the fullest of its part of the step. Micro-batches
/// that repeat what those before them do are left out.
[[nodiscard]] MemoryCurve memory_curve(const Program& program, int moments);

/// The memory of a class of ranks, and its name in a picture.
struct RankMemory {
  std::string name;
  MemoryCurve memory;
};

/// One diagram for each class with the same scale, kinds above each other. `limit`: bytes of the device, as a line; 0:
/// none.
[[nodiscard]] std::string memory_chart(const std::vector<RankMemory>& ranks, std::int64_t limit);

}  // namespace strata::host
