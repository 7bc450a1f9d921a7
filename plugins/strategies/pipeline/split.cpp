#include "split.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>

#include "strata/error.hpp"

namespace pipeline {
namespace {

using namespace strata;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Sums of the first 0, 1, … costs.
std::vector<double> prefix_sums(const std::vector<double>& costs) {
  std::vector<double> sums(costs.size() + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  return sums;
}

/// The smallest possible size of the largest part.
double least_largest_part(const std::vector<double>& sums, int parts) {
  const std::size_t count = sums.size() - 1;
  // least[i]: the smallest largest part for the first i costs in `part` parts.
  std::vector<double> least(sums.begin(), sums.end());
  least[0] = kInfinity;
  for (int part = 1; part < parts; ++part) {
    std::vector<double> next(count + 1, kInfinity);
    for (std::size_t end = 1; end <= count; ++end) {
      for (std::size_t begin = end; begin-- > 0;) {
        const double last = sums[end] - sums[begin];
        next[end] = std::min(next[end], std::max(least[begin], last));
        if (last >= next[end]) break;  // for earlier begins the last part is even larger
      }
    }
    least = std::move(next);
  }
  return least[count];
}

/// Sizes of the parts with the smallest sum of squares, if no part may exceed `limit`.
std::vector<int> least_squares_split(const std::vector<double>& sums, int parts, double limit) {
  const std::size_t count = sums.size() - 1;
  std::vector<double> least(count + 1, kInfinity);
  least[0] = 0;
  std::vector<std::vector<std::size_t>> begin_of(static_cast<std::size_t>(parts), std::vector<std::size_t>(count + 1));
  for (std::vector<std::size_t>& begins : begin_of) {
    std::vector<double> next(count + 1, kInfinity);
    for (std::size_t end = 1; end <= count; ++end) {
      for (std::size_t begin = end; begin-- > 0;) {
        const double last = sums[end] - sums[begin];
        if (last > limit) break;
        const double squares = least[begin] + last * last;
        if (squares < next[end]) {
          next[end] = squares;
          begins[end] = begin;
        }
      }
    }
    least = std::move(next);
  }
  std::vector<int> sizes(static_cast<std::size_t>(parts));
  std::size_t end = count;
  for (std::size_t part = sizes.size(); part-- > 0;) {
    sizes[part] = static_cast<int>(end - begin_of[part][end]);
    end = begin_of[part][end];
  }
  return sizes;
}

/// Parts of equal size. The first ones get one more if the division has a remainder.
std::vector<int> even_split(int blocks, int chunks) {
  std::vector<int> sizes(static_cast<std::size_t>(chunks), blocks / chunks);
  for (int chunk = 0; chunk < blocks % chunks; ++chunk) ++sizes[static_cast<std::size_t>(chunk)];
  return sizes;
}

std::vector<int> given_split(const std::vector<int>& sizes, int blocks) {
  const std::int64_t listed = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (listed == blocks) return sizes;
  throw OptionError("split", "found " + std::to_string(listed) + " blocks in all; accepted: " + std::to_string(blocks) +
                                 ", as many as the model has, embedding and head included");
}

}  // namespace

std::vector<int> balanced_split(const std::vector<double>& costs, int parts) {
  const std::vector<double> sums = prefix_sums(costs);
  return least_squares_split(sums, parts, least_largest_part(sums, parts));
}

std::vector<int> split_blocks(const std::vector<BlockCost>& blocks, const Settings& settings) {
  const int count = static_cast<int>(blocks.size());
  if (count < settings.chunks()) {
    const std::string each =
        settings.virtual_stages > 1 ? " of " + std::to_string(settings.virtual_stages) + " chunks" : "";
    throw OptionError("size", "found " + std::to_string(settings.stages) + " stages" + each + "; accepted: at most " +
                                  std::to_string(count) + " chunks in all, the number of blocks of the model");
  }
  if (settings.split.kind == Split::Kind::even) return even_split(count, settings.chunks());
  if (settings.split.kind == Split::Kind::given) return given_split(settings.split.blocks, count);
  std::vector<double> costs;
  for (const BlockCost& block : blocks) costs.push_back(block.forward_flops + block.backward_flops);
  return balanced_split(costs, settings.chunks());
}

}  // namespace pipeline
