#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/device.hpp"
#include "strata/error.hpp"
#include "strata/plugin.hpp"

namespace strata::host {

class Subject;

/// A plugin breaks the promise of a check.
class CheckFailed : public Error {
 public:
  using Error::Error;
};

/// A check does not apply to a plugin, or lacks something to run, such as a file or a GPU.
class CheckSkipped : public Error {
 public:
  using Error::Error;
};

/// One check of the conformance kit.
struct Check {
  /// Stable number: a letter for the kind of plugin, and a count.
  std::string_view number;
  /// What is promised, in one sentence.
  std::string_view promise;
  /// What a user would lose without it, in one sentence.
  std::string_view loss;
  /// Runs the check. \return what it covered, or an empty text. \throws CheckFailed, CheckSkipped, or what the plugin
  /// throws, which counts as a failure.
  std::string (*run)(Subject& subject);
  /// True if no later check can run without the promise.
  bool is_gate = false;
  /// The kinds of plugins that the check is for. Empty: every kind.
  std::vector<PluginKind> kinds = {};

  [[nodiscard]] bool applies_to(PluginKind kind) const;
};

/// The table of all checks, in the order in which they run.
[[nodiscard]] const std::vector<Check>& all_checks();

// The checks by what they are about, in the order in which they run. all_checks() says which kinds of plugins each
// list is for.

[[nodiscard]] std::vector<Check> plugin_checks();
[[nodiscard]] std::vector<Check> option_checks();
[[nodiscard]] std::vector<Check> op_checks();
[[nodiscard]] std::vector<Check> strategy_checks();
[[nodiscard]] std::vector<Check> model_checks();
[[nodiscard]] std::vector<Check> optimizer_checks();
[[nodiscard]] std::vector<Check> dataset_checks();
[[nodiscard]] std::vector<Check> communicator_checks();
[[nodiscard]] std::vector<Check> device_checks();
[[nodiscard]] std::vector<Check> determinism_checks();

/// \file
/// The cases of the checks of devices, apart from kernels. Each throws CheckFailed that says what was found.

/// Memory is aligned and zeroed.
void try_memory(Device& device);
/// Copies of rows, of parts, and clearing.
void try_copies(Device& device);
/// Events order streams. Host memory may be reused when the call that copies from it returns.
void try_streams(Device& device);
/// Reductions add in the order of their sources, in f32 for short types, also in place of a source.
void try_reductions(Device& device);

}  // namespace strata::host
