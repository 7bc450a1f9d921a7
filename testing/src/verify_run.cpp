#include "strata/testing/verify_run.hpp"

#include <algorithm>
#include <sstream>

#include "search_places.hpp"
#include "verify/verification.hpp"

namespace strata::testing {

bool RunReport::holds(double tolerance) const {
  return std::max({loss, gradient_norm, parameter, replicas}) <= tolerance;
}

std::string RunReport::text() const {
  std::ostringstream line;
  line << "relative differences from one rank: loss " << loss << ", gradient norm " << gradient_norm << ", parameter '"
       << worst_parameter << "' " << parameter << "; replicas differ by " << replicas;
  return line.str();
}

RunReport verify_run(const std::string& toml, const PluginSettings& settings) {
  host::PluginRegistry plugins(search_places(settings));
  const host::RunConfiguration run = host::parse_configuration(toml, "the test's configuration", settings.overrides);
  const host::Verification found = host::verify_stack(run, plugins, {});
  return {.loss = found.difference.loss,
          .gradient_norm = found.difference.gradient_norm,
          .parameter = found.difference.parameter,
          .worst_parameter = found.difference.worst_parameter,
          .replicas = found.stack.replica_difference};
}

}  // namespace strata::testing
