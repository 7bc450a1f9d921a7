#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "strata/export.hpp"
#include "strata/kernel.hpp"

/// \file
/// Helpers that most kernels need, for kernels of any runtime.

namespace strata {

/// How attention makes scores of the products of queries and keys: scale · product, bent so that no score is beyond
/// ± cap (Gemma Team, "Gemma 2", 2024).
struct AttentionScores {
  double scale = 1;
  /// 0: no cap.
  double cap = 0;

  /// The score of a product.
  [[nodiscard]] double of(double product) const {
    return cap > 0 ? cap * std::tanh(scale * product / cap) : scale * product;
  }
  /// The derivative of a score by scale · product.
  [[nodiscard]] double slope(double score) const { return cap > 0 ? 1 - score / cap * (score / cap) : 1; }
};

/// The scores of an instance of `attention`, `attention_gradient` or `cached_attention`, whose first operand are the
/// queries: by the attributes `scale`, without which it is 1 / √head_dim, and `cap`.
[[nodiscard]] inline AttentionScores attention_scores(const OpInstance& op) {
  const auto head_dim = static_cast<double>(op.operands[0].shape.back());
  return {op.attributes.has("scale") ? op.attributes.number("scale") : 1 / std::sqrt(head_dim),
          op.attributes.has("cap") ? op.attributes.number("cap") : 0};
}

}  // namespace strata

namespace strata::kernels {

/// Number of elements of an operand or result.
inline std::int64_t elements(const OperandDescription& operand) { return element_count(operand.shape); }
/// Size of an operand or result in bytes.
inline std::int64_t bytes(const OperandDescription& operand) {
  return elements(operand) * static_cast<std::int64_t>(size_of(operand.dtype));
}
/// Size of the last dimension.
inline std::int64_t columns(const OperandDescription& operand) { return operand.shape.back(); }
/// Product of all dimensions but the last.
inline std::int64_t rows(const OperandDescription& operand) {
  return element_count(Shape(operand.shape.begin(), operand.shape.end() - 1));
}

/// The data of operand number `operand` as an array of T.
template <class T>
const T* in(const KernelArguments& arguments, std::size_t operand) {
  return static_cast<const T*>(arguments.operands[operand]);
}
/// The data of result number `result` as an array of T.
template <class T>
T* out(const KernelArguments& arguments, std::size_t result) {
  return static_cast<T*>(arguments.results[result]);
}
/// The workspace at `offset` bytes as an array of T.
template <class T>
T* workspace_at(const KernelArguments& arguments, std::int64_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(arguments.workspace) + offset);
}

/// Divides a workspace into pieces, each aligned to a cache line. `prepare` reserves pieces and asks for bytes(). The
/// launch reads each piece with workspace_at().
class WorkspacePlan {
 public:
  /// Appends a piece of `bytes` bytes. \return its offset in bytes.
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

/// Calls body(begin, end) on up to `threads` threads for ranges that together cover [0, count). There are fewer ranges
/// if the work is too short to share: `elements` is the number of elements that the body computes for one index, such
/// as the columns of a row. Results of the body must not depend on the division. For kernels of the runtime "host".
STRATA_API void parallel_ranges(int threads, std::int64_t count,
                                const std::function<void(std::int64_t begin, std::int64_t end)>& body,
                                std::int64_t elements = 1);

/// The global indices of `dim` that this rank computes. \throws ConfigurationError if the instance has no map for
/// `dim`.
STRATA_API const IndexMap& index_map(const OpInstance& op, const Dim& dim);
/// The map of several dimensions taken as one, row-major, such as the dims of attention's heads.
STRATA_API IndexMap index_map(const OpInstance& op, const Dims& dims);

}  // namespace strata::kernels
