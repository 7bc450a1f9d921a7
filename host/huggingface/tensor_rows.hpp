#pragma once

#include <map>
#include <string>
#include <vector>

#include "huggingface/exported_values.hpp"
#include "huggingface/model.hpp"

namespace strata::host {

/// Puts a Hugging Face tensor together from parameters, some of its rows at a time. Rows are the indices of
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

}  // namespace strata::host
