#include "index_map.hpp"

#include "strata/kernel_tools.hpp"

namespace strata::cpu {

DimIndices::DimIndices(const OpInstance& op, const Dim& dim)
    : DimIndices(kernels::index_map(op, dim), op.micro_batch_dim == dim) {}

DimIndices::DimIndices(const OpInstance& op, const Dims& dims) : DimIndices(kernels::index_map(op, dims), false) {}

DimIndices::DimIndices(const strata::IndexMap& map, bool moves)
    : local_size_(map.local_size()), global_size_(map.global_size), moves_(moves) {
  for (const strata::IndexSegment& segment : map.segments) {
    segments_.push_back({segment.local_begin, segment.global_begin, segment.length});
  }
  moved_ = segments_;
}

IndexMap DimIndices::map(int micro_batch) {
  const std::int64_t offset = moves_ ? global_size_ * micro_batch : 0;
  for (std::size_t i = 0; i < segments_.size(); ++i) moved_[i].global_begin = segments_[i].global_begin + offset;
  return {moved_.data(), static_cast<std::int64_t>(moved_.size())};
}

}  // namespace strata::cpu
