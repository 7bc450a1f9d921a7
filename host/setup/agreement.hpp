#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Lets all ranks of a run agree on a decision, across processes.
class Agreement {
 public:
  /// Collective: every rank constructs one at the same point. `values`: as many are reduced without new memory.
  Agreement(Communicator& communicator, Device& device, std::int64_t values = 1);

  /// Replaces each value by the largest of the ranks' values. Collective: returns when every rank has called it.
  void largest(std::span<double> values);
  double largest(double value);
  /// The text of the one rank that gives one; the others give "". Collective.
  std::string text(const std::string& own);
  /// A barrier: returns when every rank has called it.
  void meet() { (void)largest(0); }
  /// Does this rank's `work`, which may be empty, on a thread of its own. Returns when all ranks have done theirs. The
  /// ranks ask each other every few milliseconds meanwhile, so work that waits for a disk counts against no timeout of
  /// a communicator. Collective. \throws what `work` throws.
  void work_together(const std::function<void()>& work);

 private:
  Communicator& communicator_;
  Device& device_;
  int group_ = -1;
  /// Null if there is one rank.
  std::shared_ptr<void> memory_;
  std::int64_t values_;
  std::uint64_t calls_ = 0;
};

}  // namespace strata::host
