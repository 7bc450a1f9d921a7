#include "train/verify/random_inputs.hpp"

#include "strata/random.hpp"

namespace strata::host {

void RandomInputs::load(const std::string& name, std::uint64_t step, const std::vector<IndexMap>& dims,
                        std::int32_t* destination) {
  fill(name, random::stream_key(seed_, "input/" + name, step), dims, 0, 0, destination);
}

void RandomInputs::fill(const std::string& name, std::uint64_t key, const std::vector<IndexMap>& dims, std::size_t dim,
                        std::int64_t index, std::int32_t*& destination) const {
  if (dim == dims.size()) {
    *destination++ = value(name, key, index);
    return;
  }
  for (const IndexSegment& segment : dims[dim].segments) {
    for (std::int64_t i = 0; i < segment.length; ++i) {
      fill(name, key, dims, dim + 1, index * dims[dim].global_size + segment.global_begin + i, destination);
    }
  }
}

std::int32_t RandomInputs::value(const std::string& name, std::uint64_t key, std::int64_t index) const {
  if (name == "positions") return static_cast<std::int32_t>(index);
  const auto element = static_cast<std::uint64_t>(index);
  if (name == "targets" && random::word(key + 1, element) < random::drop_threshold(0.2)) return -1;
  return static_cast<std::int32_t>(random::below(key, element, static_cast<std::uint64_t>(vocab_)));
}

}  // namespace strata::host
