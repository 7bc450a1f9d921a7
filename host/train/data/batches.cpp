#include "train/data/batches.hpp"

#include <algorithm>
#include <numeric>

#include "strata/error.hpp"

namespace strata::host {

void WindowBatches::load(const std::string& name, std::uint64_t step, const std::vector<IndexMap>& dims,
                         std::int32_t* destination) {
  const bool targets = name == "targets";
  if (name == "positions" && dims.size() == 1) {
    for (const IndexSegment& run : dims[0].segments) {
      std::iota(destination + run.local_begin, destination + run.local_begin + run.length,
                static_cast<std::int32_t>(run.global_begin));
    }
    return;
  }
  if ((name != "tokens" && !targets) || dims.size() != 2) {
    throw VerificationError("the model asks for input '" + name + "' with " + std::to_string(dims.size()) +
                            " dimensions; there are tokens [batch seq], targets [batch seq] and positions [seq]");
  }
  const IndexMap& batch = dims[0];
  const IndexMap& sequence = dims[1];
  for (const IndexSegment& rows : batch.segments) {
    for (std::int64_t row = 0; row < rows.length; ++row) {
      std::int32_t* out = destination + (rows.local_begin + row) * sequence.local_size();
      const std::optional<std::int64_t> begin = window_begin(step, rows.global_begin + row);
      if (!begin) std::fill_n(out, sequence.local_size(), targets ? -1 : 0);
      if (!begin) continue;
      for (const IndexSegment& run : sequence.segments) {
        corpus_.copy(range_.begin + *begin + run.global_begin + (targets ? 1 : 0), run.length, out + run.local_begin);
      }
    }
  }
}

std::uint64_t TrainingBatches::samples_before(std::uint64_t step) const {
  return start_.samples + (step - start_.step) * static_cast<std::uint64_t>(global_batch_);
}

std::optional<std::int64_t> TrainingBatches::window_begin(std::uint64_t step, std::int64_t sample) const {
  return sampler_.window_begin(samples_before(step) + static_cast<std::uint64_t>(sample));
}

std::optional<std::int64_t> ValidationBatches::window_begin(std::uint64_t step, std::int64_t sample) const {
  const std::int64_t window = static_cast<std::int64_t>(step) * global_batch_ + sample;
  if (window >= windows_) return std::nullopt;
  return window * context_;
}

}  // namespace strata::host
