#include "verify/random_inputs.hpp"

#include <limits>
#include <utility>

#include "data/data_source.hpp"
#include "runtime/element.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"

namespace strata::host {

namespace {

/// Probability that an ascending input ascends from one element to the next.
constexpr double kStepProbability = 0.3;

}  // namespace

RandomInputs::RandomInputs(std::uint64_t seed, std::vector<DatasetInput> inputs, DimSizes sizes)
    : seed_(seed), inputs_(std::move(inputs)), sizes_(std::move(sizes)) {}

void RandomInputs::load(const InputPart& part, std::uint64_t step) {
  const auto found = find_input(inputs_, part.name, part.dims.size());
  if (!found) throw VerificationError("the dataset has no input '" + part.name + "'");
  const DatasetInput& input = inputs_[*found];
  const std::int64_t limit =
      input.indexes.empty() ? std::numeric_limits<std::int32_t>::max() : sizes_.at(input.indexes);
  std::int64_t written = 0;
  Stream stream{input, random::stream_key(seed_, "input/" + part.name, step), limit};
  fill(stream, part, 0, 0, written);
}

void RandomInputs::fill(Stream& stream, const InputPart& part, std::size_t dim, std::int64_t index,
                        std::int64_t& written) {
  if (dim == part.dims.size()) {
    store_element(part.dtype, part.destination, written++, value(stream, static_cast<std::uint64_t>(index)));
    return;
  }
  for (const IndexSegment& segment : part.dims[dim].segments) {
    for (std::int64_t i = 0; i < segment.length; ++i) {
      fill(stream, part, dim + 1, index * part.dims[dim].global_size + segment.global_begin + i, written);
    }
  }
}

double RandomInputs::value(Stream& stream, std::uint64_t index) {
  if (is_floating_point(stream.input.dtype)) return random::normal(stream.key, index);
  if (stream.input.dims == Dims{stream.input.indexes}) return own_index(stream, index);
  // One element at least has a target, since there is no mean over none.
  const bool may_lack_target = stream.input.is_target && index > 0;
  if (may_lack_target && random::word(stream.key + 1, index) < random::drop_threshold(0.2)) return -1;
  return static_cast<double>(random::below(stream.key, index, static_cast<std::uint64_t>(stream.limit)));
}

/// The value at an index of the dimension that the input indexes.
double RandomInputs::own_index(Stream& stream, std::uint64_t index) {
  if (!stream.input.per_sample) return static_cast<double>(index);
  const auto size = static_cast<std::uint64_t>(stream.limit);
  const std::uint64_t first = index / size * size;
  // Values mostly follow one another, so counting goes on from the last one.
  if (stream.counted < first || stream.counted > index) {
    stream.counted = first;
    stream.steps = 0;
  }
  const std::uint64_t threshold = random::drop_threshold(kStepProbability);
  while (stream.counted < index) {
    if (random::word(stream.key, ++stream.counted) < threshold) ++stream.steps;
  }
  return static_cast<double>(stream.steps);
}

}  // namespace strata::host
