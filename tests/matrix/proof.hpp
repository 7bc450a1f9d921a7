#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "conformance/stack_proof.hpp"
#include "loading/plugin_registry.hpp"
#include "matrix/refusals.hpp"

namespace strata::testing {

enum class Verdict {
  holds,    ///< trains like one rank, with the memory and traffic that the compiler planned
  refused,  ///< refused for a known reason
  fails     ///< anything else
};

/// The result of proving a stack.
struct Proof {
  Verdict verdict = Verdict::fails;
  /// The faults, one per line. For a refused stack, the message.
  std::vector<std::string> findings = {};
  const Refusal* refusal = nullptr;
  /// Differences of a stack that holds, in 16-bit types or beyond the tolerance, which rounding explains.
  std::vector<std::string> amplified = {};
  int ranks = 0;
  /// Largest relative difference from one rank in f64.
  double worst_difference = 0;
  /// A hash that is equal for stacks with equal programs.
  std::size_t programs = 0;
};

/// Proves stacks of the grammar on the reference device. Used by one thread at a time.
class Prover {
 public:
  explicit Prover(const std::vector<std::filesystem::path>& plugin_folders)
      : plugins_(plugin_folders), prover_(plugins_) {}

  /// Proves a configuration with host::StackProver. A refusal counts only if the grammar knows its reason.
  /// \param name of the configuration in messages.
  [[nodiscard]] Proof prove(const std::string& toml, const std::string& name);

 private:
  host::PluginRegistry plugins_;
  host::StackProver prover_;
};

}  // namespace strata::testing
