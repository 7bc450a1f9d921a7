#pragma once

#include <vector>

#include "kernels/index_map.hpp"
#include "strata/kernel.hpp"

namespace strata::cpu {

/// The index map of one dim in the form that kernels take. It owns the segments. If the dim advances with the
/// micro-batch, so does the map.
class DimIndices {
 public:
  DimIndices(const OpInstance& op, const Dim& dim);
  /// Several dims taken as one, row-major, such as the heads of attention. None of them may advance with the
  /// micro-batch.
  DimIndices(const OpInstance& op, const Dims& dims);

  [[nodiscard]] std::int64_t local_size() const { return local_size_; }
  [[nodiscard]] std::int64_t global_size() const { return global_size_; }
  /// The map for one micro-batch. It is valid until the next call.
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
