#include "strata/matrix_piece.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>

#include "strata/kernel_tools.hpp"
#include "strata/strategy.hpp"

namespace strata {

namespace {

Dims split(const std::string& words) {
  std::istringstream stream(words);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Runs are shared by threads in so many blocks, whatever the number of threads, so that sums do not depend on it.
constexpr std::size_t kMostBlocks = 16;

/// One dimension of the parameter.
struct SideDim {
  const IndexMap* map = nullptr;
  /// Distance, among the sums of its side, between neighbours along the dimension.
  std::int64_t stride = 1;
};

/// Appends runs for the elements [begin, begin + count) of the rank's block. The first is element `local` of the piece.
void append_runs(const std::vector<SideDim>& dims, bool last_is_row, std::int64_t columns_begin, std::int64_t begin,
                 std::int64_t count, std::int64_t local, const std::vector<bool>& is_row,
                 std::vector<MatrixRun>& runs) {
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

MatrixSides matrix_sides(const ParameterDescription& parameter) {
  MatrixSides sides;
  const bool is_matrix = !parameter.contracted.empty();
  for (std::size_t i = 0; i < parameter.dims.size(); ++i) {
    const Dim& dim = parameter.dims[i];
    const bool is_row = is_matrix ? contains(parameter.contracted, dim) : i == 0;
    (is_row ? sides.rows : sides.columns).push_back(dim);
  }
  return sides;
}

Attributes matrix_attributes(const ParameterDescription& parameter) {
  const MatrixSides sides = matrix_sides(parameter);
  return {{"dims", join(parameter.dims)}, {"rows", join(sides.rows)}, {"columns", join(sides.columns)}};
}

MatrixPiece::MatrixPiece(const OpInstance& op) {
  const Dims names = split(op.attributes.word("dims"));
  const Dims row_names = split(op.attributes.word("rows"));
  std::vector<SideDim> dims(names.size());
  std::vector<bool> is_row(names.size());
  std::int64_t elements = 1;
  for (std::size_t i = names.size(); i-- > 0;) {
    is_row[i] = contains(row_names, names[i]);
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

MatrixBlocks::MatrixBlocks(const OpInstance& op) : piece_(op), begins_{0} {
  std::int64_t elements = 0;
  for (const MatrixRun& run : piece_.runs()) elements += run.length;
  std::int64_t before = 0;
  for (std::size_t r = 0; r < piece_.runs().size(); ++r) {
    const auto due = static_cast<std::int64_t>(begins_.size()) * elements / static_cast<std::int64_t>(kMostBlocks);
    if (before >= due && r > 0 && begins_.size() < kMostBlocks) begins_.push_back(r);
    before += piece_.runs()[r].length;
  }
}

void MatrixBlocks::for_each(int threads,
                            const std::function<void(std::int64_t, std::size_t, std::size_t)>& body) const {
  const auto runs = static_cast<std::int64_t>(piece_.runs().size());
  const std::int64_t of_block = runs == 0 ? 0 : piece_.runs().front().length * runs / count();
  kernels::parallel_ranges(
      threads, count(),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t block = begin; block < end; ++block) {
          const auto at = static_cast<std::size_t>(block);
          body(block, begins_[at], at + 1 < begins_.size() ? begins_[at + 1] : piece_.runs().size());
        }
      },
      of_block);
}

}  // namespace strata
