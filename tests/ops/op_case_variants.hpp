#pragma once

#include <string>

#include "ops/op_case.hpp"

/// \file
/// Sizes that rows of the table share, and functions that derive a row from another: with other sizes, in place, ….

namespace strata::testing {

inline const DimSizes kSizes = {{"batch", 3},    {"seq", 7},   {"embed", 37}, {"ffn", 53},     {"vocab", 41},
                                {"kv_heads", 2}, {"heads", 3}, {"group", 2},  {"head_dim", 5}, {"expert", 3}};
/// Sizes that are large enough for blocked and threaded code, and not multiples of a vector.
inline const DimSizes kLargeSizes = {{"batch", 4},   {"seq", 67},  {"embed", 197},  {"ffn", 301},
                                     {"vocab", 611}, {"heads", 5}, {"head_dim", 37}};

/// Sizes that are multiples of every vector, so that rows are moved in whole vectors.
inline const DimSizes kEvenSizes = {{"batch", 2},  {"seq", 24},  {"embed", 80},    {"ffn", 72},
                                    {"vocab", 96}, {"heads", 4}, {"head_dim", 16}, {"expert", 8}};

inline const Dims kActivation = {"batch", "seq", "embed"};

void append(std::vector<OpCase>& cases, std::vector<OpCase> more);

/// An operand that stays in f32 even if the row runs in a shorter type.
CaseOperand full(const Dims& dims, Fill fill = Fill::normal);

OpCase with_accumulate(OpCase op_case);
OpCase with_sizes(OpCase op_case, const DimSizes& sizes, const std::string& suffix);
OpCase with_shard(OpCase op_case, const Dim& dim, const IndexMap& map, const std::string& suffix);
OpCase with_in_place(OpCase op_case, int operand);
/// The row with an f32 result for any operand type, like a parameter's gradient.
OpCase with_f32_result(OpCase op_case);

}  // namespace strata::testing
