#include "data/joined_sizes.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Sizes if neither the model nor the dataset fixes one.
constexpr std::int64_t kSmallIndexed = 256;
constexpr std::int64_t kSmall = 8;

bool is_in_shape(const std::vector<DatasetInput>& inputs, const Dim& dim) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const DatasetInput& input) { return find_dim(input.dims, dim) >= 0; });
}

/// All dimensions that inputs have or index.
std::vector<Dim> dims_of(const std::vector<DatasetInput>& inputs) {
  std::vector<Dim> dims;
  for (const DatasetInput& input : inputs) {
    dims.insert(dims.end(), input.dims.begin(), input.dims.end());
    if (!input.indexes.empty()) dims.push_back(input.indexes);
  }
  return dims;
}

}  // namespace

DimSizes join_sizes(const FixedSizes& model, const FixedSizes& data, const std::vector<DatasetInput>& inputs) {
  DimSizes sizes = model.sizes;
  for (const auto& [dim, size] : data.sizes) {
    const auto [place, added] = sizes.try_emplace(dim, size);
    const bool exact = is_in_shape(inputs, dim);
    if (added || (exact ? place->second == size : place->second >= size)) continue;
    throw ConfigurationError("found '" + dim + "' = " + std::to_string(place->second) + " from " + model.by +
                             "; accepted: " + (exact ? "" : "at least ") + std::to_string(size) + ", as " + data.by +
                             " has");
  }
  return sizes;
}

std::vector<Dim> indexed_dims(const std::vector<DatasetInput>& inputs) {
  std::vector<Dim> dims;
  for (const DatasetInput& input : inputs) {
    if (!input.indexes.empty() && !is_in_shape(inputs, input.indexes)) dims.push_back(input.indexes);
  }
  return dims;
}

void add_small_sizes(DimSizes& sizes, const std::vector<DatasetInput>& inputs, const Stack& stack) {
  const std::map<Dim, std::int64_t> multiples = required_multiples(stack);
  for (const Dim& dim : dims_of(inputs)) {
    const auto found = multiples.find(dim);
    const std::int64_t multiple = found == multiples.end() ? 1 : found->second;
    sizes.try_emplace(dim, std::lcm(is_in_shape(inputs, dim) ? kSmall : kSmallIndexed, multiple));
  }
}

std::map<Dim, std::int64_t> required_multiples(const Stack& stack) {
  std::map<Dim, std::set<Axis>> axes;
  std::set<Dim> zigzag;
  for (const Rule& rule : stack.rules) {
    axes[rule.dim].insert(rule.axis);
    if (rule.distribution == Distribution::zigzag) zigzag.insert(rule.dim);
  }
  // Each axis counts once, so a multiple is at most twice the number of ranks, which the mesh limits.
  std::map<Dim, std::int64_t> multiples;
  for (const auto& [dim, of_dim] : axes) {
    const std::int64_t ranks = stack.mesh.size(std::vector<Axis>(of_dim.begin(), of_dim.end()));
    multiples[dim] = zigzag.contains(dim) ? 2 * ranks : ranks;
  }
  return multiples;
}

}  // namespace strata::host
