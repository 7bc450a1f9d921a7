#include "collectives/marked_rows.hpp"

#include <algorithm>
#include <cstring>

namespace strata::communicators {

std::int64_t MarkedRows::count(RowRange range) const {
  std::int64_t count = 0;
  for (std::int64_t row = range.begin; row < range.end; ++row) count += is_marked(row) ? 1 : 0;
  return count;
}

void MarkedRows::pack(RowRange range, const std::byte* rows, std::byte* packed) const {
  for (std::int64_t row = range.begin; row < range.end; ++row, rows += row_bytes_) {
    if (!is_marked(row)) continue;
    std::memcpy(packed, rows, static_cast<std::size_t>(row_bytes_));
    packed += row_bytes_;
  }
}

void MarkedRows::copy(RowRange range, const std::byte* rows, std::byte* to) const {
  for (std::int64_t row = range.begin; row < range.end; ++row, rows += row_bytes_, to += row_bytes_) {
    if (is_marked(row)) std::memcpy(to, rows, static_cast<std::size_t>(row_bytes_));
  }
}

void MarkedRows::spread(RowRange range, std::byte* rows, bool fills) const {
  // From the last row on, because no row moves towards the beginning.
  std::int64_t packed = count(range);
  for (std::int64_t row = range.end - 1; row >= range.begin; --row) {
    std::byte* place = rows + (row - range.begin) * row_bytes_;
    if (is_marked(row)) {
      --packed;
      std::memmove(place, rows + packed * row_bytes_, static_cast<std::size_t>(row_bytes_));
    } else if (fills) {
      std::memset(place, 0, static_cast<std::size_t>(row_bytes_));
    }
  }
}

bool MarkedRows::is_marked(std::int64_t row) const {
  const std::byte* begin = marks_ + row * bytes_of_marks_;
  return std::any_of(begin, begin + bytes_of_marks_, [](std::byte each) { return each != std::byte{0}; });
}

}  // namespace strata::communicators
