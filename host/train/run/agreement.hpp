#pragma once

#include <cstdint>
#include <memory>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Lets all ranks of a run agree on a decision, across processes.
class Agreement {
 public:
  /// Collective: every rank constructs one at the same point.
  Agreement(Communicator& communicator, Device& device);

  /// The largest of the ranks' values. Collective: returns when every rank has called it.
  double largest(double value);
  /// A barrier: returns when every rank has called it.
  void meet() { (void)largest(0); }

 private:
  Communicator& communicator_;
  Device& device_;
  int group_ = -1;
  std::shared_ptr<void> memory_;
  std::uint64_t calls_ = 0;
};

}  // namespace strata::host
