#pragma once

#include <cstdint>
#include <memory>
#include <string>

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
  /// The text of the one rank that gives one; the others give "". Collective.
  std::string text(const std::string& own);
  /// A barrier: returns when every rank has called it.
  void meet() { (void)largest(0); }

 private:
  void reduce(double* values, std::int64_t count, void* memory);

  Communicator& communicator_;
  Device& device_;
  int group_ = -1;
  std::shared_ptr<void> memory_;
  std::uint64_t calls_ = 0;
};

}  // namespace strata::host
