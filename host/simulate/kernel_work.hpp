#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// The sizes of a matrix product: `batch` products of rows × depth and depth × columns.
struct ProductShape {
  std::int64_t batch = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
};

/// The sizes of an op that mixes the positions of sequences, such as attention.
struct AttentionShape {
  std::int64_t heads = 1;  ///< sequences · heads
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t head_size = 1;
  bool is_backward = false;
  bool drops = false;  ///< drops some of the probabilities
};

/// What an instruction asks of a device, in sizes of one rank.
struct KernelWork {
  /// The op's name, with its kind if it has several ("activation gelu_tanh"), or "copy".
  std::string name;
  /// Element type of the first operand, or of the result if there is none. f32 for copies, which move bytes of any
  /// type.
  DType dtype = DType::f32;
  double flops = 0;
  /// Bytes read and written if every operand and result passes through memory once.
  double bytes = 0;
  /// Bytes of an element of the first result.
  double result_size = 0;
  /// True if the instruction adds to its results.
  bool accumulates = false;
  /// At most one is set.
  std::optional<ProductShape> product = std::nullopt;
  std::optional<AttentionShape> attention = std::nullopt;

  /// The sizes that its time depends on, as in MeasuredPoint::shape.
  [[nodiscard]] std::vector<std::int64_t> shape() const;
};

/// The work of a Compute, a Copy or a LoadInput. The definition of the op tells it: OpDefinition::cost, asked for a
/// node that has the instruction's local sizes, OpDefinition::is_product and OpDefinition::mixing.
[[nodiscard]] KernelWork kernel_work(const OpRegistry& registry, const Program& program,
                                     const Instruction& instruction);

}  // namespace strata::host
