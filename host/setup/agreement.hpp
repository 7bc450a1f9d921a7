#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Lets all ranks of a run agree on a decision, across processes.
class Agreement {
 public:
  /// Collective: every rank constructs one at the same point. `most`: the most values that largest() gets beside the
  /// first one.
  Agreement(Communicator& communicator, Device& device, std::int64_t most = 0);

  /// The largest of the ranks' values. Collective: returns when every rank has called it.
  double largest(double value);
  /// Likewise, and replaces each of `more` by the largest of the ranks' values, in the same communication.
  double largest(double value, std::vector<double>& more);
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
  /// Reused by calls with several values.
  std::vector<double> values_;
  std::uint64_t calls_ = 0;
};

}  // namespace strata::host
