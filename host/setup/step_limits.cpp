#include "setup/step_limits.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/parameters/step_end.hpp"

namespace strata::host {

void write_limits(Executor& training, const HealthRule& rule) {
  const auto& reports = training.program().reports;
  const auto write = [&](const char* name, double value) {
    // Ranks that do not update have no guard.
    if (const auto report = reports.find(name); report != reports.end()) training.write(report->second, &value);
  };
  const double loss = std::min(rule.largest_loss(), kNoLimit);
  write(kSquaredLossLimit, loss * loss);
  write(kNormLimit, std::min(rule.largest_norm(), kNoLimit));
}

bool is_refused(const Reports& reports) {
  const auto verdict = reports.find(kGuardVerdict);
  return verdict != reports.end() && !std::isfinite(verdict->second);
}

}  // namespace strata::host
