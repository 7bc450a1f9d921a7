#include "runtime/tensor_part.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {
namespace {

/// Number of elements of a block below one index of each dim. The first entry is the whole block's.
std::vector<std::int64_t> pitches(const std::vector<IndexMap>& dims) {
  std::vector<std::int64_t> result(dims.size() + 1, 1);
  for (std::size_t dim = dims.size(); dim-- > 0;) result[dim] = result[dim + 1] * dims[dim].local_size();
  return result;
}

/// Visits the elements that two parts of a tensor have in common, dim by dim.
class CommonRuns {
 public:
  CommonRuns(const TensorPart& a, const TensorPart& b, const VisitRun& visit)
      : a_(a), b_(b), visit_(visit), a_pitch_(pitches(a.dims)), b_pitch_(pitches(b.dims)) {
    for (std::size_t dim = 0; dim < a.dims.size(); ++dim) overlaps_.push_back(overlaps(a.dims[dim], b.dims[dim]));
    // Trailing dims that are whole in both form one run with the dim before them.
    last_ = a.dims.size();
    while (last_ > 0 && a.dims[last_ - 1].is_whole() && b.dims[last_ - 1].is_whole()) --last_;
    if (last_ > 0) --last_;
  }

  void run() const {
    if (overlaps_.empty()) return add(0, 0, 1);
    walk(0, 0, 0);
  }

 private:
  /// A run of indices of one dim that both blocks contain.
  struct Overlap {
    std::int64_t a = 0;
    std::int64_t b = 0;
    std::int64_t length = 0;
  };

  static std::vector<Overlap> overlaps(const IndexMap& a, const IndexMap& b) {
    std::vector<Overlap> result;
    for (const IndexSegment& of_a : a.segments) {
      for (const IndexSegment& of_b : b.segments) {
        const std::int64_t begin = std::max(of_a.global_begin, of_b.global_begin);
        const std::int64_t end = std::min(of_a.global_begin + of_a.length, of_b.global_begin + of_b.length);
        if (begin >= end) continue;
        result.push_back(
            {of_a.local_begin + begin - of_a.global_begin, of_b.local_begin + begin - of_b.global_begin, end - begin});
      }
    }
    return result;
  }

  /// Visits the dims from `dim` on. Their first elements are at `at_a` and `at_b` within the blocks.
  void walk(std::size_t dim, std::int64_t at_a, std::int64_t at_b) const {
    const bool outside =
        at_a >= a_.end || at_a + a_pitch_[dim] <= a_.begin || at_b >= b_.end || at_b + b_pitch_[dim] <= b_.begin;
    if (outside) return;
    const std::int64_t a_pitch = a_pitch_[dim + 1];
    const std::int64_t b_pitch = b_pitch_[dim + 1];
    for (const Overlap& each : overlaps_[dim]) {
      const std::int64_t first_a = at_a + each.a * a_pitch;
      const std::int64_t first_b = at_b + each.b * b_pitch;
      if (dim == last_) {
        add(first_a, first_b, each.length * a_pitch);
        continue;
      }
      for (std::int64_t i = 0; i < each.length; ++i) walk(dim + 1, first_a + i * a_pitch, first_b + i * b_pitch);
    }
  }

  /// A run of the blocks, of which the parts may have some elements only.
  void add(std::int64_t at_a, std::int64_t at_b, std::int64_t length) const {
    const std::int64_t first = std::max({std::int64_t{0}, a_.begin - at_a, b_.begin - at_b});
    const std::int64_t last = std::min({length, a_.end - at_a, b_.end - at_b});
    if (first < last) visit_(at_a + first - a_.begin, at_b + first - b_.begin, last - first);
  }

  const TensorPart& a_;
  const TensorPart& b_;
  const VisitRun& visit_;
  std::vector<std::int64_t> a_pitch_;
  std::vector<std::int64_t> b_pitch_;
  std::vector<std::vector<Overlap>> overlaps_;
  /// The last dim to loop over.
  std::size_t last_ = 0;
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

void for_each_common_run(const TensorPart& a, const TensorPart& b, const VisitRun& visit) {
  CommonRuns(a, b, visit).run();
}

void for_each_run(const TensorPart& part, const VisitRun& visit) {
  for_each_common_run(part, TensorPart::whole(part.tensor_shape()), visit);
}

}  // namespace strata::host
