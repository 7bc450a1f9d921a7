#pragma once

#include <functional>

#include "conformance/report.hpp"
#include "conformance/subject.hpp"

namespace strata::host {

/// Receives each result as soon as the check has ended.
using CheckObserver = std::function<void(const CheckResult&)>;

/// Runs all checks of a plugin, each in a process of its own. \throws ConfigurationError if the file does not exist or
/// `settings.only` names a check that is not for this plugin.
[[nodiscard]] ConformanceReport check_conformance(const ConformanceSettings& settings,
                                                  const CheckObserver& observer = {});

}  // namespace strata::host
