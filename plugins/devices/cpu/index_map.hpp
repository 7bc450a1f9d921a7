#pragma once

#include <vector>

#include "kernels/index_map.hpp"
#include "shared/index_map.hpp"
#include "strata/device.hpp"

namespace strata::cpu {

using devices::index_map;

/// The index map of one dim in the form that kernels take; owns its segments. The map of the dim that grows with every
/// micro-batch moves with it.
class DimIndices {
 public:
  DimIndices(const OpInstance& op, const Dim& dim);
  /// Several dims as one, row-major (the heads of attention). None of them moves.
  DimIndices(const OpInstance& op, const Dims& dims);

  [[nodiscard]] std::int64_t local_size() const { return local_size_; }
  [[nodiscard]] std::int64_t global_size() const { return global_size_; }
  /// Valid until the next call.
  [[nodiscard]] IndexMap map(int micro_batch);
  [[nodiscard]] IndexedDim dim(int micro_batch) { return {local_size_, global_size_, map(micro_batch)}; }

 private:
  DimIndices(const strata::IndexMap& map, bool moves);

  std::int64_t local_size_ = 0;
  std::int64_t global_size_ = 0;
  bool moves_ = false;
  std::vector<IndexSegment> segments_;
  std::vector<IndexSegment> moved_;
};

}  // namespace strata::cpu
