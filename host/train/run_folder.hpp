#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/run_configuration.hpp"

namespace strata::host {

/// The value of run.resume that starts a run or continues it.
inline constexpr const char* kResumeAuto = "auto";
/// Name of the file in the output folder that holds the run's identity.
inline constexpr const char* kIdentityName = "run-id";

/// How a run starts, as the process of the first rank decides from the output folder.
struct StartDecision {
  /// The run's identity: 32 hexadecimal digits, random at the first start.
  std::string identity;
  /// Checkpoints to continue from, the newest first. Empty: the run starts anew.
  std::vector<std::filesystem::path> candidates;
  /// True if the checkpoints of the output folder are removed at the start.
  bool overwrites = false;
};

/// The identity of the run that was last started in an output folder. Empty if there was none.
[[nodiscard]] std::string stored_identity(const std::filesystem::path& output);

/// Decides by run.resume and the contents of run.output. `overwrite`: starts anew whatever they are. \throws
/// ConfigurationError if checkpoints would be lost or belong to another run, or if there is none to continue from.
[[nodiscard]] StartDecision decide_start(const RunConfiguration& configuration, bool overwrite);

/// Removes checkpoints if `decision` says so, and stores the identity. \throws RuntimeError if that fails.
void begin_run(const std::filesystem::path& output, const StartDecision& decision);

}  // namespace strata::host
