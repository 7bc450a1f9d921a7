#include "runtime/shards.hpp"

#include <cstring>

namespace strata::host {

Shard::Shard(const std::vector<ShardedDim>& dims, const Mesh& mesh, int rank) : strides_(dims.size(), 1) {
  const Coordinates coordinates = mesh.coordinates(rank);
  for (const ShardedDim& dim : dims) dims_.push_back(index_map(dim, mesh, coordinates));
  for (std::size_t i = dims_.size(); i-- > 0;) {
    strides_[i] = global_elements_;
    global_elements_ *= dims_[i].global_size;
    local_elements_ *= dims_[i].local_size();
  }
  run_dims_ = dims_.size();
  while (run_dims_ > 0 && dims_[run_dims_ - 1].is_whole()) run_length_ *= dims_[--run_dims_].global_size;
}

void Shard::gather(const void* local, void* whole, std::size_t element_size) const {
  const auto size = static_cast<std::int64_t>(element_size);
  for_each_run([&](std::int64_t from, std::int64_t to, std::int64_t length) {
    std::memcpy(static_cast<std::byte*>(whole) + to * size, static_cast<const std::byte*>(local) + from * size,
                static_cast<std::size_t>(length * size));
  });
}

void Shard::scatter(const void* whole, void* local, std::size_t element_size) const {
  const auto size = static_cast<std::int64_t>(element_size);
  for_each_run([&](std::int64_t to, std::int64_t from, std::int64_t length) {
    std::memcpy(static_cast<std::byte*>(local) + to * size, static_cast<const std::byte*>(whole) + from * size,
                static_cast<std::size_t>(length * size));
  });
}

}  // namespace strata::host
