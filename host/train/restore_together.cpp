#include "train/restore_together.hpp"

#include <exception>

namespace strata::host {

namespace {

/// Calls `restore` with what it writes with, and with what it calls after each tensor.
template <class Restore>
void together(Executor& executor, Agreement& agreement, const Restore& restore) {
  std::exception_ptr failure;
  try {
    restore([&](const BufferSlice& slice, const void* host) { executor.write(slice, host); },
            [&] { (void)agreement.largest(1); });
  } catch (...) {
    failure = std::current_exception();
  }
  while (agreement.largest(0) > 0) {
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void restore_together(const CheckpointReader& checkpoint, Executor& executor, Agreement& agreement) {
  together(executor, agreement, [&](const WriteSlice& write, const std::function<void()>& restored) {
    checkpoint.restore(executor.program(), executor.rank(), write, DifferingReplicas::refuse, RestoredWeights::trained,
                       restored);
  });
}

void restore_values_together(const CheckpointReader& checkpoint, Executor& executor, Agreement& agreement) {
  together(executor, agreement, [&](const WriteSlice& write, const std::function<void()>& restored) {
    checkpoint.restore_values(executor.program(), executor.rank(), write, restored);
  });
}

}  // namespace strata::host
