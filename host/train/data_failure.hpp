#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace strata::host {

/// Keeps why the data of a step could not be read. Thread-safe.
class DataFailure {
 public:
  /// `place`: "step 12". `checkpoint`: the step of the checkpoint that is written, if any. `reason`: empty if only
  /// another process knows it.
  void set(const std::string& place, std::optional<std::uint64_t> checkpoint, const std::optional<std::string>& reason);
  /// The message with which the run ends. Empty if the data could be read. `has_checkpoint`: false if the checkpoint
  /// could not be written.
  [[nodiscard]] std::optional<std::string> message(bool has_checkpoint) const;

 private:
  mutable std::mutex mutex_;
  std::string place_;
  std::optional<std::uint64_t> checkpoint_;
  std::optional<std::string> reason_;
};

}  // namespace strata::host
