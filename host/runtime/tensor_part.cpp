#include "runtime/tensor_part.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {
namespace {

using Visit = std::function<void(std::int64_t, std::int64_t, std::int64_t)>;

/// Visits the runs of a part, dim by dim.
class RunWalk {
 public:
  RunWalk(const TensorPart& part, const Visit& visit) : part_(part), visit_(visit), pitch_(part.dims.size() + 1, 1) {
    for (std::size_t dim = part.dims.size(); dim-- > 0;) pitch_[dim] = pitch_[dim + 1] * part.dims[dim].global_size;
    // Trailing dims that are whole form one run with the dim before them.
    last_ = part.dims.size();
    while (last_ > 0 && is_whole(part.dims[last_ - 1])) --last_;
    if (last_ > 0) --last_;
  }

  void run() {
    if (part_.dims.empty()) return add(0, 1);
    walk(0, 0);
  }

 private:
  static bool is_whole(const IndexMap& map) {
    return map.segments.size() == 1 && map.segments.front().length == map.global_size;
  }

  void walk(std::size_t dim, std::int64_t global) {
    for (const IndexSegment& segment : part_.dims[dim].segments) {
      const std::int64_t begin = global + segment.global_begin * pitch_[dim + 1];
      if (dim == last_) {
        add(begin, segment.length * pitch_[dim + 1]);
        continue;
      }
      for (std::int64_t i = 0; i < segment.length; ++i) walk(dim + 1, begin + i * pitch_[dim + 1]);
    }
  }

  /// A run of the block, of which the part may have some elements only.
  void add(std::int64_t global, std::int64_t length) {
    const std::int64_t first = std::max<std::int64_t>(0, part_.begin - block_);
    const std::int64_t last = std::min(length, part_.end - block_);
    if (first < last) visit_(block_ + first - part_.begin, global + first, last - first);
    block_ += length;
  }

  const TensorPart& part_;
  const Visit& visit_;
  /// Distance in elements, in the whole tensor, between neighbouring indices of the dim before.
  std::vector<std::int64_t> pitch_;
  std::size_t last_ = 0;
  /// Elements of the block so far.
  std::int64_t block_ = 0;
};

}  // namespace

TensorPart TensorPart::block(std::vector<IndexMap> dims) {
  TensorPart part{std::move(dims), 0, 0};
  part.end = part.block_elements();
  return part;
}

TensorPart TensorPart::whole(const Shape& shape) {
  std::vector<IndexMap> dims;
  for (const std::int64_t size : shape) dims.push_back(IndexMap::whole(size));
  return block(std::move(dims));
}

std::int64_t TensorPart::block_elements() const {
  std::int64_t elements = 1;
  for (const IndexMap& dim : dims) elements *= dim.local_size();
  return elements;
}

Shape TensorPart::shape() const {
  if (!is_block()) return {elements()};
  Shape shape;
  shape.reserve(dims.size());
  for (const IndexMap& dim : dims) shape.push_back(dim.local_size());
  return shape;
}

Shape TensorPart::tensor_shape() const {
  Shape shape;
  shape.reserve(dims.size());
  for (const IndexMap& dim : dims) shape.push_back(dim.global_size);
  return shape;
}

void for_each_run(const TensorPart& part, const Visit& visit) { RunWalk(part, visit).run(); }

}  // namespace strata::host
