#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <streambuf>
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

  void info(const std::string& message);
  void warning(const std::string& message);
  void error(const std::string& message);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// A stream that writes text to another one in the form of message_text(). Names of files, options and runs, the help
/// of plugins and generated text may hold commands of a terminal, which must not reach it.
class SafeOutput : public std::ostream {
 public:
  explicit SafeOutput(std::ostream& target) : std::ostream(nullptr), buffer_(target) { rdbuf(&buffer_); }

  /// Writes all that follows as it is.
  void leave_as_it_is() { buffer_.leave_as_it_is(); }

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(std::ostream& target) : target_(target) {}
    ~Buffer() override { Buffer::sync(); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void leave_as_it_is();

   protected:
    int_type overflow(int_type character) override;
    std::streamsize xsputn(const char* text, std::streamsize count) override;
    int sync() override;

   private:
    /// Writes what is pending, except for the beginning of a character, and leaves it in the target's buffer.
    void pass_on(bool with_incomplete);

    std::ostream& target_;
    std::string pending_;
    bool is_raw_ = false;
  };

  Buffer buffer_;
};

/// Prints an error, which may quote a file or another process. The line is written at once: a launcher merges what
/// several ranks write, and must not mix their lines.
void print_error(std::ostream& messages, const std::string& text);

/// What a command prints.
struct Console {
  Console(std::ostream& results, std::ostream& message_stream)
      : out(results), messages(message_stream), log(message_stream) {}

  /// Standard output, for results.
  SafeOutput out;
  /// Standard error, for output that is not a log line, such as the progress line on a terminal.
  std::ostream& messages;
  Log log;

  /// Writes buffered results. If the reader of standard output has closed it, as in `strata train … | head`, later
  /// results go nowhere and are no error: it has what it wanted.
  void flush_results();
};

}  // namespace strata::host
