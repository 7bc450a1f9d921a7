#pragma once

#include <string>
#include <vector>

#include "chaos/disturbance.hpp"
#include "chaos/plan.hpp"
#include "chaos/process_tree.hpp"

namespace strata::testing::chaos {

/// A start that has ended.
struct EndedStart {
  const Plan& plan;
  const Start& start;
  const CommandEnd& end;
  const std::string& messages;
  const std::vector<InjectedFault>& injected;
  /// Processes of the start before may still have been running.
  bool was_impatient = false;
};

/// Why a start may not have ended so, or "".
[[nodiscard]] std::string find_fault(const EndedStart& ended);

/// Why a start does not refuse a damaged folder clearly, or "".
[[nodiscard]] std::string find_missing_refusal(const CommandEnd& end, const std::string& messages);

}  // namespace strata::testing::chaos
