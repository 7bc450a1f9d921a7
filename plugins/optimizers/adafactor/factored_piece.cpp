#include "factored_piece.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>

#include "strata/kernel_tools.hpp"

namespace adafactor {

using namespace strata;

namespace {

Dims split(const std::string& words) {
  std::istringstream stream(words);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// One dimension of the parameter.
struct SideDim {
  const IndexMap* map = nullptr;
  /// Distance, among the sums of its side, between neighbours along the dimension.
  std::int64_t stride = 1;
};

/// Appends runs for the elements [begin, begin + count) of the rank's block. The first is element `local` of the piece.
void append_runs(const std::vector<SideDim>& dims, bool last_is_row, std::int64_t columns_begin, std::int64_t begin,
                 std::int64_t count, std::int64_t local, const std::vector<bool>& is_row, std::vector<Run>& runs) {
  const SideDim& last = dims.back();
  const std::int64_t size = last.map->local_size();
  while (count > 0) {
    std::int64_t rest = begin / size;
    std::int64_t row = 0;
    std::int64_t column = 0;
    for (std::size_t i = dims.size() - 1; i-- > 0;) {
      const std::int64_t of_dim = dims[i].map->local_size();
      (is_row[i] ? row : column) += dims[i].map->global_index(rest % of_dim) * dims[i].stride;
      rest /= of_dim;
    }
    const std::int64_t at = begin % size;
    for (const IndexSegment& segment : last.map->segments) {
      const std::int64_t from = std::max(at, segment.local_begin);
      const std::int64_t to = std::min(std::min(at + count, size), segment.local_begin + segment.length);
      if (from >= to) continue;
      const std::int64_t index = segment.global_begin + from - segment.local_begin;
      runs.push_back({local + from - at, to - from, last_is_row ? columns_begin + column : row,
                      last_is_row ? row + index : columns_begin + column + index});
    }
    const std::int64_t done = std::min(count, size - at);
    begin += done;
    local += done;
    count -= done;
  }
}

}  // namespace

FactoredPiece::FactoredPiece(const OpInstance& op) {
  const Dims names = split(op.attributes.word("dims"));
  const Dims row_names = split(op.attributes.word("rows"));
  std::vector<SideDim> dims(names.size());
  std::vector<bool> is_row(names.size());
  std::int64_t elements = 1;
  for (std::size_t i = names.size(); i-- > 0;) {
    is_row[i] = find_dim(row_names, names[i]) >= 0;
    std::int64_t& side = is_row[i] ? rows_ : columns_;
    dims[i] = {&kernels::index_map(op, names[i]), side};
    side *= dims[i].map->global_size;
    elements *= dims[i].map->local_size();
  }
  for (const IndexSegment& segment : kernels::index_map(op, "flat").segments) {
    const std::int64_t count = std::min(segment.length, elements - segment.global_begin);
    if (count <= 0) continue;
    append_runs(dims, is_row.back(), rows_, segment.global_begin, count, segment.local_begin, is_row, runs_);
  }
}

}  // namespace adafactor
