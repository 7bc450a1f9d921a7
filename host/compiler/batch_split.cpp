#include "compiler/batch_split.hpp"

#include <string>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// A program lists its tasks for every micro-batch, and plans memory for each: about 10 KiB for a small model.
constexpr std::int64_t kMostMicroBatches = 1 << 16;

}  // namespace

BatchSplit split_batch(std::int64_t global, std::int64_t micro, std::int64_t replicas) {
  std::int64_t samples = 0;
  if (__builtin_mul_overflow(micro, replicas, &samples)) {
    throw OptionError("micro", "found " + std::to_string(micro) + "; times " + std::to_string(replicas) +
                                   " replicas that is too large to count");
  }
  if (global % samples != 0) {
    throw OptionError("global", "found " + std::to_string(global) + "; accepted: a multiple of " +
                                    std::to_string(samples) + ", which is batch.micro (" + std::to_string(micro) +
                                    ") times the number of replicas (" + std::to_string(replicas) + ")");
  }
  const std::int64_t micro_batches = global / samples;
  if (micro_batches > kMostMicroBatches) {
    throw OptionError("global", "found " + std::to_string(global) + ", which is " + std::to_string(micro_batches) +
                                    " micro-batches; accepted: at most " + std::to_string(kMostMicroBatches) +
                                    ", with a larger batch.micro");
  }
  return {samples, static_cast<int>(micro_batches)};
}

}  // namespace strata::host
