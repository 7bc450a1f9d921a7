#include "conformance/report.hpp"

#include <algorithm>

namespace strata::host {

std::string outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed:
      return "passed";
    case Outcome::failed:
      return "failed";
    case Outcome::skipped:
      return "skipped";
  }
  return "";
}

std::size_t ConformanceReport::count(Outcome outcome) const {
  return static_cast<std::size_t>(
      std::count_if(checks.begin(), checks.end(), [&](const CheckResult& each) { return each.outcome == outcome; }));
}

}  // namespace strata::host
