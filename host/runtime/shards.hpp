#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// The part of a logical tensor that one rank holds, dense and row-major in the rank's memory.
class Shard {
 public:
  Shard(const StoredParameter& parameter, const Mesh& mesh, int rank) : Shard(parameter.dims, mesh, rank) {}
  Shard(const std::vector<ShardedDim>& dims, const Mesh& mesh, int rank);

  /// Which global indices the rank holds, by dim.
  [[nodiscard]] const std::vector<IndexMap>& dims() const { return dims_; }
  [[nodiscard]] std::int64_t local_elements() const { return local_elements_; }
  [[nodiscard]] std::int64_t global_elements() const { return global_elements_; }

  /// Calls `visit(local, global, length)` for every run of elements that follow each other both in the shard and in the
  /// whole tensor, in the order of the shard.
  template <class Visit>
  void for_each_run(const Visit& visit) const {
    std::int64_t local = 0;
    visit_runs(0, 0, local, visit);
  }

  /// Puts the rank's elements where they belong in the whole tensor.
  void gather(const void* local, void* whole, std::size_t element_size) const;
  /// Takes the rank's elements out of the whole tensor.
  void scatter(const void* whole, void* local, std::size_t element_size) const;

 private:
  template <class Visit>
  void visit_runs(std::size_t dim, std::int64_t global, std::int64_t& local, const Visit& visit) const {
    if (dim == run_dims_) {
      visit(local, global, run_length_);
      local += run_length_;
      return;
    }
    const bool innermost = dim + 1 == run_dims_;
    for (const IndexSegment& segment : dims_[dim].segments) {
      const std::int64_t begin = global + segment.global_begin * strides_[dim];
      if (innermost) {
        visit(local, begin, segment.length * run_length_);
        local += segment.length * run_length_;
        continue;
      }
      for (std::int64_t i = 0; i < segment.length; ++i) visit_runs(dim + 1, begin + i * strides_[dim], local, visit);
    }
  }

  std::vector<IndexMap> dims_;
  /// Elements of the whole tensor from one index of a dim to the next.
  std::vector<std::int64_t> strides_;
  /// Dims behind these are whole: together they are one run.
  std::size_t run_dims_ = 0;
  std::int64_t run_length_ = 1;
  std::int64_t local_elements_ = 1;
  std::int64_t global_elements_ = 1;
};

}  // namespace strata::host
