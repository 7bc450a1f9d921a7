#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "matrix/product_calls.hpp"

namespace strata::cuda {

/// A product by the first algorithms that work. The fast algorithm serves arrays at multiples of kFastAlignment, which
/// nearly all are. Another algorithm serves arrays at any element. If the library has none of that kind, unaligned
/// arrays are copied into the workspace first.
class ChosenProduct final : public MatrixProduct {
 public:
  /// Alignment in bytes that the fast algorithm requires.
  static constexpr std::uint32_t kFastAlignment = 16;
  /// Number of algorithms to request from the library.
  static constexpr int kOffers = 8;
  /// Largest workspace of an algorithm in bytes. NVIDIA recommends this size for the architecture that needs the most.
  static constexpr std::int64_t kWorkspaceLimit = 32 << 20;

  ChosenProduct(const MatrixProductShape& shape, std::unique_ptr<ProductCalls> calls);

  /// Why there is no product: the reasons against each offered algorithm. Empty if there is one.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }

  [[nodiscard]] std::int64_t workspace_bytes() const override;
  [[nodiscard]] bool takes(const MatrixProductArguments& arguments) const override;
  void run(const MatrixProductArguments& arguments, Stream stream) override;

 private:
  using Algorithm = std::optional<MatrixAlgorithm>;
  /// An array of the product in bytes: columns of `width` bytes with stride `pitch`, and matrices with stride `stride`.
  struct ArrayBytes {
    std::int64_t width = 0;
    std::int64_t pitch = 0;
    std::int64_t columns = 0;
    std::int64_t stride = 0;
    std::int64_t matrices = 1;

    [[nodiscard]] std::int64_t span() const { return (matrices - 1) * stride + (columns - 1) * pitch + width; }
  };

  [[nodiscard]] ArrayAlignments of_elements() const;
  [[nodiscard]] Algorithm choose(const ArrayAlignments& alignments);
  [[nodiscard]] ArrayBytes bytes_of(const MatrixPlacement& placement, std::int64_t rows, std::int64_t columns,
                                    DType dtype) const;
  /// True if unaligned arrays are copied.
  [[nodiscard]] bool packs() const { return !any_; }
  void run_packed(MatrixProductArguments arguments, Stream stream);

  MatrixProductShape shape_;
  std::unique_ptr<ProductCalls> calls_;
  ArrayBytes a_;
  ArrayBytes b_;
  ArrayBytes d_;
  std::string refusal_;
  Algorithm any_;   ///< for arrays at any element
  Algorithm fast_;  ///< for arrays at multiples of kFastAlignment
};

/// Chooses the product of a shape. Null if the library has none with the shape's epilogue. \throws ConfigurationError
/// if it has none and the shape has no epilogue.
std::shared_ptr<MatrixProduct> choose_product(const MatrixProductShape& shape, std::unique_ptr<ProductCalls> calls);

}  // namespace strata::cuda
