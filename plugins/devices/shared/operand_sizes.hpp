#pragma once

#include <cstdint>

#include "strata/device.hpp"

namespace strata::devices {

inline std::int64_t elements(const OperandDescription& operand) { return element_count(operand.shape); }
inline std::int64_t bytes(const OperandDescription& operand) {
  return elements(operand) * static_cast<std::int64_t>(size_of(operand.dtype));
}
/// Size of the last dim.
inline std::int64_t columns(const OperandDescription& operand) { return operand.shape.back(); }
/// Product of all dims but the last.
inline std::int64_t rows(const OperandDescription& operand) {
  return element_count(Shape(operand.shape.begin(), operand.shape.end() - 1));
}

/// Pieces of a workspace, one behind the other, each at the beginning of a cache line.
class WorkspacePlan {
 public:
  /// \return the offset of a new piece.
  std::int64_t reserve(std::int64_t bytes) {
    const std::int64_t offset = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t kAlignment = 64;
  std::int64_t bytes_ = 0;
};

}  // namespace strata::devices
