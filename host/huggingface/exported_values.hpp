#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_manifest.hpp"
#include "huggingface/hugging_face_model.hpp"
#include "huggingface/low_rank_terms.hpp"
#include "strata/tensor.hpp"

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
  /// The type that the parameter had in Hugging Face's files from which the run began, or else dtype().
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

/// Puts a tensor of Hugging Face together from parameters, some of its rows at a time. Rows are the indices of
/// its first dim.
class TensorRows {
 public:
  /// All references outlive it.
  TensorRows(ExportedValues& values, const std::vector<MappedParameter>& parts,
             const std::map<std::string, Shape>& shapes, DType dtype);

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  /// Bytes of a row.
  [[nodiscard]] std::int64_t row_bytes() const { return row_elements_ * element_bytes_; }
  /// Divisor of the first row of every read() and, but for the last one, of their number. 0: a read() takes all rows.
  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Writes the rows [begin, end) to `destination`.
  void read(std::int64_t begin, std::int64_t end, std::byte* destination);

 private:
  /// Columns of a transposed parameter, which are rows of the tensor, and the parameter's dim that counts them in steps
  /// of `pitch`.
  struct Columns {
    std::size_t dim = 0;
    std::int64_t pitch = 1;
  };

  [[nodiscard]] const Shape& shape_of(const MappedParameter& part) const { return shapes_.at(part.where.parameter); }
  [[nodiscard]] Columns columns_of(const MappedParameter& part) const;
  void read_transposed(const MappedParameter& part, std::int64_t begin, std::int64_t end, std::byte* destination);
  void read_straight(const MappedParameter& part, std::int64_t begin, std::int64_t end, std::byte* destination);
  /// Reads a part of a parameter to `data_`.
  void load(const MappedParameter& part, const TensorPart& selected);

  ExportedValues& values_;
  const std::vector<MappedParameter>& parts_;
  const std::map<std::string, Shape>& shapes_;
  DType dtype_;
  std::int64_t rows_ = 0;
  std::int64_t row_elements_ = 1;
  std::int64_t element_bytes_ = 0;
  std::int64_t step_ = 1;
  std::vector<std::byte> data_;
};

/// The config.json that a checkpoint keeps from its import. Empty if it has none.
[[nodiscard]] std::optional<HuggingFaceFields> imported_config(const ModelFiles& files);

/// The text of the config.json of an exported model. `options`: all of the model's. `sizes`: those that the data fixed.
/// `files`: those that the checkpoint keeps from its import. `dtype`: the type of most tensors. `tokens`: fields that
/// the data of the run decides.
///
/// If the model began from a config.json, its fields stay, except for those in which the model now differs. Example: a
/// Mistral whose window was null stays a Mistral, though its plugin would call such a model a Llama.
[[nodiscard]] std::string exported_config(const HuggingFacePlugin& plugin, const Options& options,
                                          const DimSizes& sizes, const ModelFiles& files, DType dtype,
                                          const HuggingFaceFields& tokens);

}  // namespace strata::host
