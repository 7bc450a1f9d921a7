#pragma once

#include <vector>

#include "kernels/index_map.hpp"
#include "strata/kernel.hpp"
#include "strata/kernel_tools.hpp"

namespace strata::cpu {

/// The index map of one dim in the form that kernels take. It owns the segments. If the dim advances with the
/// micro-batch, so does the map.
class DimIndices {
 public:
  DimIndices(const OpInstance& op, const Dim& dim)
      : DimIndices(kernels::index_map(op, dim), op.micro_batch_dim == dim) {}
  /// Several dims taken as one, row-major, such as the heads of attention. None of them may advance with the
  /// micro-batch.
  DimIndices(const OpInstance& op, const Dims& dims) : DimIndices(kernels::index_map(op, dims), false) {}

  [[nodiscard]] std::int64_t local_size() const { return local_size_; }
  [[nodiscard]] std::int64_t global_size() const { return global_size_; }
  /// The map for one micro-batch. It is valid until the next call.
  [[nodiscard]] IndexMap map(int micro_batch) {
    const std::int64_t offset = moves_ ? global_size_ * micro_batch : 0;
    for (std::size_t i = 0; i < segments_.size(); ++i) moved_[i].global_begin = segments_[i].global_begin + offset;
    return {moved_.data(), static_cast<std::int64_t>(moved_.size())};
  }
  [[nodiscard]] IndexedDim dim(int micro_batch) { return {local_size_, global_size_, map(micro_batch)}; }

 private:
  DimIndices(const strata::IndexMap& map, bool moves)
      : local_size_(map.local_size()), global_size_(map.global_size), moves_(moves) {
    for (const strata::IndexSegment& segment : map.segments) {
      segments_.push_back({segment.local_begin, segment.global_begin, segment.length});
    }
    moved_ = segments_;
  }

  std::int64_t local_size_ = 0;
  std::int64_t global_size_ = 0;
  bool moves_ = false;
  std::vector<IndexSegment> segments_;
  std::vector<IndexSegment> moved_;
};

}  // namespace strata::cpu
