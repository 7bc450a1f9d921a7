#pragma once

#include <cstdint>
#include <memory>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Lets all ranks of a run take one decision, wherever their processes are.
class Agreement {
 public:
  /// Collective: every rank makes one, at the same point.
  Agreement(Communicator& communicator, Device& device);

  /// The largest of the values that the ranks give. Collective; returns when every rank has given its value.
  double largest(double value);
  /// Returns when every rank has come here.
  void meet() { (void)largest(0); }

 private:
  Communicator& communicator_;
  Device& device_;
  int group_ = -1;
  std::shared_ptr<void> memory_;
  std::uint64_t calls_ = 0;
};

}  // namespace strata::host
