#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/communicator.hpp"

namespace strata::communicators {

/// Rows from `begin` to before `end`.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The rows that travel between this rank and one peer, by their marks.
class MarkedRows {
 public:
  /// `marks`: of the first row.
  MarkedRows(const std::byte* marks, std::int64_t bytes_of_marks, std::int64_t row_bytes)
      : marks_(marks), bytes_of_marks_(bytes_of_marks), row_bytes_(row_bytes) {}

  [[nodiscard]] std::int64_t count(RowRange range) const;
  /// Copies the marked rows from `rows`, where the range begins, to `packed`, one after the other.
  void pack(RowRange range, const std::byte* rows, std::byte* packed) const;
  /// Copies the marked rows of a range between memory where all rows have a place.
  void copy(RowRange range, const std::byte* rows, std::byte* to) const;
  /// Moves packed rows, which lie where the range begins, to their places. `fills`: makes the other rows 0.
  void spread(RowRange range, std::byte* rows, bool fills) const;

 private:
  [[nodiscard]] bool is_marked(std::int64_t row) const;

  const std::byte* marks_;
  std::int64_t bytes_of_marks_;
  std::int64_t row_bytes_;
};

}  // namespace strata::communicators
