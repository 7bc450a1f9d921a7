#include "data/input_part.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/element.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

class InputPartCopy {
 public:
  InputPartCopy(const std::byte* source, DType from, std::span<const IndexMap> dims, DType to, std::byte* destination)
      : source_(source), from_(from), dims_(dims), to_(to), destination_(destination) {
    if (from != to && !(is_floating_point(from) && is_floating_point(to))) {
      throw VerificationError("an input of type " + std::string(to_string(from)) + " is read as " +
                              std::string(to_string(to)));
    }
  }

  /// `from` and `to`: indices of the part among the parts of the outer dimensions.
  void run(std::size_t dim, std::int64_t from, std::int64_t to) const {
    if (dim == dims_.size()) return copy(from, 1, to);
    const IndexMap& map = dims_[dim];
    const bool last = dim + 1 == dims_.size();
    for (const IndexSegment& each : map.segments) {
      const std::int64_t source = from * map.global_size + each.global_begin;
      const std::int64_t destination = to * map.local_size() + each.local_begin;
      if (last) {
        copy(source, each.length, destination);
        continue;
      }
      for (std::int64_t i = 0; i < each.length; ++i) run(dim + 1, source + i, destination + i);
    }
  }

 private:
  void copy(std::int64_t from, std::int64_t count, std::int64_t to) const {
    const auto size = static_cast<std::int64_t>(size_of(from_));
    const std::byte* source = source_ + from * size;
    if (from_ == to_) {
      std::memcpy(destination_ + to * size, source, static_cast<std::size_t>(count * size));
    } else if (from_ == DType::f32 && to_ == DType::f64) {
      std::copy_n(reinterpret_cast<const float*>(source), count, reinterpret_cast<double*>(destination_) + to);
    } else {
      for (std::int64_t i = 0; i < count; ++i) store_element(to_, destination_, to + i, load_element(from_, source, i));
    }
  }

  const std::byte* source_;
  DType from_;
  std::span<const IndexMap> dims_;
  DType to_;
  std::byte* destination_;
};

}  // namespace

void copy_input_part(const std::byte* source, DType from, std::span<const IndexMap> dims, DType to,
                     std::byte* destination) {
  InputPartCopy(source, from, dims, to, destination).run(0, 0, 0);
}

}  // namespace strata::host
