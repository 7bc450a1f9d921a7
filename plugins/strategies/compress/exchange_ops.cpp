#include <memory>
#include <utility>

#include "compress.hpp"
#include "strata/op.hpp"
#include "strata/random.hpp"

namespace compress {

using namespace strata;

double first_basis(const std::string& parameter, std::int64_t index) {
  return random::normal(random::stream_key(0, "power_sgd/" + parameter, 0), static_cast<std::uint64_t>(index));
}

void register_ops(Registration& registration) {
  const auto add = [&](const char* name, const char* documentation, FlatSignature signature) {
    signature.has_own_sizes = true;
    registration.add(std::make_unique<FlatOp>(name, documentation, std::move(signature)));
  };
  add(kAddError, "gradient, error, unit [] f64 -> sum: unit · gradient + error.", {.inputs = 3});
  add(kLeft,
      "matrix, Q -> P: the product of this rank's piece of a matrix with Q, which has `rank` columns one after "
      "another. "
      "Columns of Q that are zero are random instead (attributes rank; parameter, its name; dims, rows, columns).",
      {.inputs = 2});
  add(kOrthonormal, "P -> P (attribute rank): its columns, orthonormal. A column that depends on earlier ones is zero.",
      {.inputs = 1});
  add(kRight, "matrix, P -> Q: the product of the transposed matrix with P (attributes rank, dims, rows, columns).",
      {.inputs = 2});
  add(kProduct, "P, Q, unit [] f64 -> gradient: P Qᵀ / unit (attributes rank, dims, rows, columns). 0 if unit is 0.",
      {.inputs = 3});
  add(kPowerStates,
      "matrix, scale [] f64, P, own Q, Q -> error, basis: error = matrix - P (own Q)ᵀ, basis = Q. Both stay if scale "
      "is "
      "0 or not finite (attributes rank, dims, rows, columns).",
      {.inputs = 5, .outputs = 0, .states = {kError, kBasis}});
  add(kSelect,
      "x -> indices i32, values: the elements with the largest magnitudes, as many as the results have, in ascending "
      "order of indices. Of equal magnitudes the first ones.",
      {.inputs = 1, .outputs = 2});
  add(kScatter,
      "indices i32, values, unit [] f64 -> gradient: zeros, to which value / unit is added at each index. 0 if unit is "
      "0.",
      {.inputs = 3});
  add(kTopStates,
      "x, scale [] f64, indices i32 -> error: x with zeros at the indices. It stays if scale is 0 or not finite.",
      {.inputs = 3, .outputs = 0, .states = {kError}});
}

}  // namespace compress
