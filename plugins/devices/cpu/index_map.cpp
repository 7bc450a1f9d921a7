#include "index_map.hpp"

namespace strata::cpu {

DimIndices::DimIndices(const OpInstance& op, const Dim& dim) {
  const strata::IndexMap& map = index_map(op, dim);
  local_size_ = map.local_size();
  global_size_ = map.global_size;
  moves_ = op.micro_batch_dim == dim;
  for (const strata::IndexSegment& segment : map.segments) {
    segments_.push_back({segment.local_begin, segment.global_begin, segment.length});
  }
  moved_ = segments_;
}

DimIndices::DimIndices(const OpInstance& op, const Dims& dims) {
  std::vector<const strata::IndexMap*> maps;
  std::int64_t count = 1;
  for (const Dim& dim : dims) {
    maps.push_back(&index_map(op, dim));
    count *= maps.back()->local_size();
    global_size_ *= maps.back()->global_size;
  }
  for (std::int64_t local = 0; local < count; ++local) {
    std::int64_t rest = local;
    std::int64_t global = 0;
    std::int64_t stride = 1;
    for (std::size_t i = maps.size(); i-- > 0;) {
      global += maps[i]->global_index(rest % maps[i]->local_size()) * stride;
      rest /= maps[i]->local_size();
      stride *= maps[i]->global_size;
    }
    append(global);
  }
  moved_ = segments_;
}

void DimIndices::append(std::int64_t global_index) {
  if (!segments_.empty() && segments_.back().global_begin + segments_.back().length == global_index) {
    ++segments_.back().length;
  } else {
    segments_.push_back({local_size_, global_index, 1});
  }
  ++local_size_;
}

IndexMap DimIndices::map(int micro_batch) {
  const std::int64_t offset = moves_ ? global_size_ * micro_batch : 0;
  for (std::size_t i = 0; i < segments_.size(); ++i) moved_[i].global_begin = segments_[i].global_begin + offset;
  return {moved_.data(), static_cast<std::int64_t>(moved_.size())};
}

}  // namespace strata::cpu
