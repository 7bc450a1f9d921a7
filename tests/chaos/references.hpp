#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "chaos/plan.hpp"
#include "chaos/settings.hpp"
#include "chaos/trace.hpp"

namespace strata::testing::chaos {

/// Undisturbed runs, each made once.
class References {
 public:
  References(const Settings& settings, std::filesystem::path folder);

  /// What the run of `plan` computes if nothing disturbs it. \throws std::runtime_error if that fails.
  [[nodiscard]] const Trace& of(const Plan& plan);

 private:
  struct Reference {
    std::once_flag once;
    Trace trace;
  };

  [[nodiscard]] Trace make(Plan plan, const std::string& name) const;

  const Settings& settings_;
  std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<std::string, Reference> references_;
};

}  // namespace strata::testing::chaos
