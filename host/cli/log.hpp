#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace strata::host {

/// Names of the log levels, from the most to the least verbose.
const std::vector<std::string>& log_level_names();

/// Log messages for people on one stream (standard error), with time and level, in the form of message_text().
/// Thread-safe.
class Log {
 public:
  explicit Log(std::ostream& stream, const std::string& level = "info");
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// `level`: one of log_level_names().
  void set_level(const std::string& level);
  /// Gets warnings and errors, whatever the level is, on the thread that logs them.
  using Listener = std::function<void(bool is_error, const std::string& text)>;
  void set_listener(Listener listener);

  void debug(const std::string& message);
  void info(const std::string& message);
  void warning(const std::string& message);
  void error(const std::string& message);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace strata::host
