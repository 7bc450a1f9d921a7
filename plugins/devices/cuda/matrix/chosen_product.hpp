#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "matrix/matrix_product.hpp"

namespace strata::cuda {

/// Alignments of the addresses of arrays, in bytes.
struct ArrayAlignments {
  std::uint32_t a = 1;
  std::uint32_t b = 1;
  std::uint32_t d = 1;
  std::uint32_t bias = 1;
  std::uint32_t aux = 1;

  auto operator<=>(const ArrayAlignments&) const = default;
};

/// One algorithm by which the library can compute a product.
struct MatrixAlgorithm {
  /// The library's own description.
  std::array<std::uint64_t, 8> description{};
  std::int64_t workspace_bytes = 0;
};

/// The answer of the library's heuristic.
struct AlgorithmOffers {
  struct Offer {
    MatrixAlgorithm algorithm;
    /// True if the heuristic reports that the algorithm works.
    bool works = false;
  };
  /// Best first.
  std::vector<Offer> offers;
  /// The library's error message if it rejects the query. Empty otherwise.
  std::string refusal;
};

/// The calls of cuBLASLt for products of one shape. Tests substitute their own. Not thread-safe.
class ProductCalls {
 public:
  virtual ~ProductCalls() = default;
  /// Asks the heuristic for at most `count` algorithms for arrays with these alignments.
  [[nodiscard]] virtual AlgorithmOffers offers(const ArrayAlignments& alignments, int count) = 0;
  /// Why the current device cannot run the algorithm. Empty if it can.
  [[nodiscard]] virtual std::optional<std::string> refusal(const MatrixAlgorithm& algorithm) = 0;
  /// Loads the algorithm's code onto the GPU without running it, so that its first launch loads nothing.
  virtual void load(const MatrixAlgorithm& algorithm) = 0;
  /// Enqueues the product. \throws RuntimeError if the library fails.
  virtual void run(const MatrixAlgorithm& algorithm, const MatrixProductArguments& arguments, Stream stream) = 0;
};

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
