#pragma once

#include <array>
#include <cstdint>
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

}  // namespace strata::cuda
