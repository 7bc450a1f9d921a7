#include "huggingface/low_rank_terms.hpp"

#include <algorithm>
#include <utility>

#include "strata/error.hpp"
#include "strata/internal/derived_initializer.hpp"

namespace strata::host {
namespace {

/// For every element over `part`, some of the dims `dims` of a tensor, its offset in the tensor. In row-major order.
std::vector<std::int64_t> offsets_of(const Dims& part, const Dims& dims, const DimSizes& sizes) {
  std::vector<std::int64_t> offsets{0};
  for (const Dim& dim : part) {
    const auto at = static_cast<std::size_t>(find_dim(dims, dim));
    std::int64_t stride = 1;
    for (std::size_t i = at + 1; i < dims.size(); ++i) stride *= sizes.at(dims[i]);
    std::vector<std::int64_t> next;
    next.reserve(offsets.size() * static_cast<std::size_t>(sizes.at(dim)));
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < sizes.at(dim); ++i) next.push_back(offset + i * stride);
    }
    offsets = std::move(next);
  }
  return offsets;
}

Dims without_dim(const Dims& dims, const Dim& removed) {
  Dims result;
  std::ranges::copy_if(dims, std::back_inserter(result), [&](const Dim& dim) { return dim != removed; });
  return result;
}

/// The place in a tensor of every element of the matrix that has one row for each element over `rows`.
std::vector<std::size_t> places_of(const Dims& rows, const Dims& columns, const Dims& dims, const DimSizes& sizes) {
  std::vector<std::size_t> places;
  const std::vector<std::int64_t> column_offsets = offsets_of(columns, dims, sizes);
  for (const std::int64_t row : offsets_of(rows, dims, sizes)) {
    for (const std::int64_t column : column_offsets) places.push_back(static_cast<std::size_t>(row + column));
  }
  return places;
}

std::vector<float> gathered(std::span<const float> values, const std::vector<std::size_t>& places) {
  std::vector<float> matrix;
  matrix.reserve(places.size());
  for (const std::size_t place : places) matrix.push_back(values[place]);
  return matrix;
}

std::vector<float> scattered(std::span<const float> matrix, const std::vector<std::size_t>& places) {
  std::vector<float> values(matrix.size());
  for (std::size_t i = 0; i < places.size(); ++i) values[places[i]] = matrix[i];
  return values;
}

/// The quantized weights of a forward graph by the name of the parameter that the model has without the strategy.
std::map<std::string, QuantizedWeight> quantized_weights(const Graph& graph) {
  std::map<std::string, QuantizedWeight> weights;
  for (const Node& node : graph.nodes()) {
    if (node.op != kDequantizeWeight) continue;
    const std::string& codes = graph.node(node.operands[0].node).name;
    const Parameter* parameter = graph.find_parameter(codes);
    if (parameter == nullptr) continue;
    const DerivedInitializer* derived = derived_initializer(parameter->initialization);
    if (derived == nullptr) continue;
    const Value dequantized{node.id, 0};
    const int along = find_dim(graph.type(dequantized).dims, node.attributes.word("along"));
    const BlockedWeight shape(WeightBlocks::from(node.attributes), graph.shape(dequantized),
                              static_cast<std::size_t>(along));
    const std::string& scales = graph.node(node.operands[1].node).name;
    weights.try_emplace(derived->source().name, QuantizedWeight{codes, scales, dequantized, shape});
  }
  return weights;
}

}  // namespace

std::vector<float> transposed(const std::vector<float>& matrix, std::int64_t rows) {
  const auto height = static_cast<std::size_t>(rows);
  const std::size_t width = matrix.size() / height;
  std::vector<float> result(matrix.size());
  for (std::size_t i = 0; i < height; ++i) {
    for (std::size_t k = 0; k < width; ++k) result[k * height + i] = matrix[i * width + k];
  }
  return result;
}

LowRankTerms::LowRankTerms(const Graph& graph) : graph_(graph), quantized_(quantized_weights(graph)) {
  for (const LowRankTerm& term : graph.low_rank_terms) {
    factors_.insert({term.a, term.b});
    by_parameter_[term.parameter] = &term;
  }
}

const LowRankTerm* LowRankTerms::find(const std::string& parameter) const {
  const auto found = by_parameter_.find(parameter);
  return found == by_parameter_.end() ? nullptr : found->second;
}

const QuantizedWeight* LowRankTerms::find_quantized(const std::string& parameter) const {
  const auto found = quantized_.find(parameter);
  return found == quantized_.end() ? nullptr : &found->second;
}

Value LowRankTerms::value(const std::string& parameter) const {
  if (const QuantizedWeight* quantized = find_quantized(parameter)) return quantized->dequantized;
  if (const Parameter* found = graph_.find_parameter(parameter)) return found->value;
  throw VerificationError("a low-rank term names the parameter '" + parameter + "', which is missing");
}

std::vector<float> LowRankTerms::read_whole(const std::string& parameter, const ReadParameter& read_parameter) const {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape(parameter))));
  read_parameter(parameter, values);
  return values;
}

LowRankFactors LowRankTerms::sizes(const LowRankTerm& term) const {
  LowRankFactors factors;
  factors.rank = graph_.sizes.at(term.rank);
  factors.inputs = element_count(shape_of(without_dim(dims(term.a), term.rank), graph_.sizes));
  factors.outputs = element_count(shape_of(without_dim(dims(term.b), term.rank), graph_.sizes));
  return factors;
}

std::map<std::string, std::vector<float>> LowRankTerms::values(const LowRankTerm& term,
                                                               const LowRankFactors& factors) const {
  return {{term.a, scattered(factors.a, places_of_a(term))}, {term.b, scattered(factors.b, places_of_b(term))}};
}

std::vector<std::size_t> LowRankTerms::places_of_a(const LowRankTerm& term) const {
  const Dims& all = dims(term.a);
  return places_of({term.rank}, without_dim(all, term.rank), all, graph_.sizes);
}

std::vector<std::size_t> LowRankTerms::places_of_b(const LowRankTerm& term) const {
  const Dims& all = dims(term.b);
  return places_of(without_dim(all, term.rank), {term.rank}, all, graph_.sizes);
}

LowRankFactors LowRankTerms::read(const LowRankTerm& term, const ReadParameter& read_parameter) const {
  LowRankFactors factors = sizes(term);
  factors.a = gathered(read_whole(term.a, read_parameter), places_of_a(term));
  factors.b = gathered(read_whole(term.b, read_parameter), places_of_b(term));
  return factors;
}

void LowRankTerms::merge(const std::string& name, std::span<float> values, const ReadParameter& read_parameter) const {
  const LowRankTerm* term = find(name);
  if (term == nullptr) return;
  const LowRankFactors factors = read(*term, read_parameter);
  const auto side = [&](const std::string& factor) {
    return offsets_of(without_dim(dims(factor), term->rank), dims(name), graph_.sizes);
  };
  const std::vector<std::int64_t> inputs = side(term->a);
  const std::vector<std::int64_t> outputs = side(term->b);
  std::vector<double> row(inputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    std::ranges::fill(row, 0.0);
    for (std::size_t r = 0; r < static_cast<std::size_t>(factors.rank); ++r) {
      const double b = term->scale * factors.b[o * static_cast<std::size_t>(factors.rank) + r];
      const float* a = factors.a.data() + r * inputs.size();
      for (std::size_t i = 0; i < inputs.size(); ++i) row[i] += b * a[i];
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      float& value = values[static_cast<std::size_t>(outputs[o] + inputs[i])];
      value = static_cast<float>(value + row[i]);
    }
  }
}

}  // namespace strata::host
