#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "strata/graph.hpp"
#include "strata/internal/weight_blocks.hpp"

namespace strata::host {

/// A parameter of the model that a strategy stores as codes and scales.
struct QuantizedWeight {
  /// Names of the two parameters.
  std::string codes;
  std::string scales;
  /// The value that dequantizes them.
  Value dequantized;
  BlockedWeight shape;
};

/// Reads the whole value of a parameter, in row-major order of its dimensions.
using ReadParameter = std::function<void(const std::string& parameter, std::span<float> values)>;

/// The two factors of a low-rank term as matrices.
struct LowRankFactors {
  std::int64_t rank = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::vector<float> a;  ///< [rank inputs]
  std::vector<float> b;  ///< [outputs rank]
};

/// The matrix of `rows` rows with rows and columns exchanged.
[[nodiscard]] std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows);

/// The low-rank terms of a forward graph (Graph::low_rank_terms), for exports and imports. The graph outlives it.
class LowRankTerms {
 public:
  explicit LowRankTerms(const Graph& graph);

  /// True if the parameter is A or B of a term. An export of merged values leaves it out.
  [[nodiscard]] bool is_factor(const std::string& parameter) const { return factors_.contains(parameter); }
  /// The term of a parameter, or null.
  [[nodiscard]] const LowRankTerm* find(const std::string& parameter) const;
  [[nodiscard]] const std::vector<LowRankTerm>& terms() const { return graph_.low_rank_terms; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// The shape of a parameter of the graph, or of one that is stored as codes and scales.
  [[nodiscard]] Shape shape(const std::string& name) const { return graph_.shape(value(name)); }
  /// The codes and scales of a parameter, or null if it is stored as it is.
  [[nodiscard]] const QuantizedWeight* find_quantized(const std::string& parameter) const;

  [[nodiscard]] LowRankFactors read(const LowRankTerm& term, const ReadParameter& read_parameter) const;
  /// The values of A and B as parameters, from `factors`, whose sizes are those of the term.
  [[nodiscard]] std::map<std::string, std::vector<float>> values(const LowRankTerm& term,
                                                                 const LowRankFactors& factors) const;
  /// The sizes of a term's factors, without values.
  [[nodiscard]] LowRankFactors sizes(const LowRankTerm& term) const;
  /// Adds scale · B A to `values`, those of the whole `parameter`. Does nothing for a parameter without a term.
  void merge(const std::string& parameter, std::span<float> values, const ReadParameter& read_parameter) const;

 private:
  [[nodiscard]] Value value(const std::string& parameter) const;
  [[nodiscard]] const Dims& dims(const std::string& parameter) const { return graph_.type(value(parameter)).dims; }
  /// The places in A and B of the elements of their matrices.
  [[nodiscard]] std::vector<std::size_t> places_of_a(const LowRankTerm& term) const;
  [[nodiscard]] std::vector<std::size_t> places_of_b(const LowRankTerm& term) const;
  [[nodiscard]] std::vector<float> read_whole(const std::string& parameter, const ReadParameter& read_parameter) const;

  const Graph& graph_;
  std::set<std::string> factors_;
  std::map<std::string, const LowRankTerm*> by_parameter_;
  std::map<std::string, QuantizedWeight> quantized_;
};

}  // namespace strata::host
