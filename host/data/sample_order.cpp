#include "data/sample_order.hpp"

#include "strata/random.hpp"

namespace strata::host {

SamplePlace SampleOrder::operator()(std::uint64_t sample) const {
  const std::uint64_t epoch = sample / samples_;
  const std::uint64_t key = random::stream_key(seed_, "data order", epoch);
  return {epoch, static_cast<std::int64_t>(random::permuted(key, samples_, sample % samples_))};
}

}  // namespace strata::host
