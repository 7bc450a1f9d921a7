#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "huggingface/low_rank_terms.hpp"

namespace strata::host {

/// The values that an export writes: a checkpoint's, with quantized weights dequantized, and with low-rank terms added
/// to the parameters that they belong to.
class ExportedValues {
 public:
  /// Both references outlive it.
  ExportedValues(const CheckpointReader& checkpoint, const LowRankTerms& terms, RestoredWeights weights)
      : checkpoint_(checkpoint), terms_(terms), weights_(weights) {}

  /// The type in which the run has the parameter.
  [[nodiscard]] DType dtype(const std::string& parameter) const;
  /// The type that the parameter had in the Hugging Face files from which the run began, or else dtype().
  [[nodiscard]] DType imported_dtype(const std::string& parameter) const;
  /// True if read() copies values of this type without rounding any.
  [[nodiscard]] bool is_copied(const std::string& parameter, DType dtype) const;
  /// Reads a part of a parameter, as CheckpointReader::read_value() does.
  void read(const std::string& parameter, const TensorPart& part, DType dtype, std::byte* destination);
  /// Reads all elements of a parameter, without low-rank terms.
  void read_whole(const std::string& parameter, std::span<float> values) const;

 private:
  void read_quantized(const QuantizedWeight& weight, std::span<float> values) const;
  /// Makes `merged_` the whole parameter with its term.
  void merge(const std::string& parameter);

  const CheckpointReader& checkpoint_;
  const LowRankTerms& terms_;
  RestoredWeights weights_;
  /// The parameter that was read last, if it has a term or is quantized, and its merged elements in row-major order.
  std::string merged_parameter_;
  std::vector<float> merged_;
};

}  // namespace strata::host
