#include "train/run/restore_together.hpp"

#include <exception>

namespace strata::host {

void restore_together(const CheckpointReader& checkpoint, Executor& executor, Agreement& agreement) {
  std::exception_ptr failure;
  try {
    checkpoint.restore(
        executor.program(), executor.rank(),
        [&](const BufferSlice& slice, const void* host) { executor.write(slice, host); }, DifferingReplicas::refuse,
        RestoredWeights::trained, [&] { (void)agreement.largest(1); });
  } catch (...) {
    failure = std::current_exception();
  }
  while (agreement.largest(0) > 0) {
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace strata::host
