#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace strata::testing::chaos {

/// One line of a log, without what a stop changes: times and the memory that a process used.
struct LogLine {
  std::uint64_t step = 0;
  std::string text;

  friend bool operator==(const LogLine&, const LogLine&) = default;
};

/// What a run has computed.
struct Trace {
  /// Steps, evaluations, and the summary. Lines that are no records have step 0.
  std::vector<LogLine> log;
  /// The last checkpoint's files of tensors.
  std::map<std::string, std::string> tensors;
};

/// \throws strata::Error if the checkpoint cannot be read.
[[nodiscard]] Trace read_trace(const std::filesystem::path& log, const std::filesystem::path& output);

/// What of a log must be equal.
struct LogScope {
  /// Lines of later steps count. Those before may be damaged.
  std::uint64_t after = 0;
  /// Lines may be missing.
  bool may_miss = false;
};

/// The first difference, or "".
[[nodiscard]] std::string difference(const Trace& trace, const Trace& expected, const LogScope& scope);

}  // namespace strata::testing::chaos
