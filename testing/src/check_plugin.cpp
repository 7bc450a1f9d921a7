#include "strata/testing/check_plugin.hpp"

#include <algorithm>

#include "conformance/conformance.hpp"
#include "search_places.hpp"

namespace strata::testing {
namespace {

Outcome outcome_of(host::Outcome outcome) {
  switch (outcome) {
    case host::Outcome::passed:
      return Outcome::passed;
    case host::Outcome::failed:
      return Outcome::failed;
    case host::Outcome::skipped:
      break;
  }
  return Outcome::skipped;
}

}  // namespace

bool PluginReport::holds() const {
  return std::none_of(checks.begin(), checks.end(),
                      [](const CheckResult& each) { return each.outcome == Outcome::failed; });
}

std::string PluginReport::text() const {
  std::string lines;
  for (const CheckResult& each : checks) {
    if (each.outcome == Outcome::passed) continue;
    const bool failed = each.outcome == Outcome::failed;
    lines += (failed ? "failed " : "skipped ") + each.number + ": " + each.promise + " " + each.message + "\n";
    if (failed) lines += "  again: " + each.command + "\n";
  }
  return lines;
}

PluginReport check_plugin(const std::filesystem::path& file, const PluginSettings& settings) {
  const host::ConformanceReport found = host::check_conformance({.file = file,
                                                                 .places = search_places(settings),
                                                                 .only = settings.only,
                                                                 .overrides = settings.overrides,
                                                                 .configuration = settings.configuration,
                                                                 .seed = settings.seed,
                                                                 .tolerance = settings.tolerance});
  PluginReport report;
  for (const host::CheckResult& each : found.checks) {
    report.checks.push_back({each.number, each.promise, outcome_of(each.outcome), each.message, each.command});
  }
  return report;
}

}  // namespace strata::testing
