#pragma once

#include <string>
#include <vector>

#include "compiler/compile.hpp"

namespace strata::host {

/// Bytes that ranks send each other in the first step. Collectives are counted as rings, all_to_all directly.
struct TrafficMatrix {
  /// Ranks of a row: 1, or more if there are many.
  int ranks_per_row = 1;
  /// By sender, then by receiver.
  std::vector<std::vector<double>> bytes;

  [[nodiscard]] double total() const;
};

/// The traffic of all ranks, in at most `rows` rows.
[[nodiscard]] TrafficMatrix traffic_matrix(const Compiled& compiled, int rows);

/// The matrix as a picture: the darker, the more bytes.
[[nodiscard]] std::string traffic_chart(const TrafficMatrix& matrix);

}  // namespace strata::host
