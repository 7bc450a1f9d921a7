#pragma once

#include <poll.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/descriptor.hpp"

namespace strata::host {

/// Frames between `strata launch` and its agent on another host, through a pair of pipes. A frame is the length of its
/// contents (4 bytes, the lowest first) and a CBOR value. Neither reading nor writing waits for the other side.
class FrameChannel {
 public:
  FrameChannel(Descriptor input, Descriptor output);

  /// Sends the line `text` before all frames.
  void send_greeting(const std::string& text);
  /// Skips what comes before a line that begins with `begin`, as shells greet their users. Frames follow that line.
  void expect_greeting(const std::string& begin) { expected_ = begin; }
  /// The rest of that line, when it has come.
  [[nodiscard]] const std::optional<std::string>& greeting() const { return greeting_; }

  void send(const nlohmann::json& frame);
  /// Appends what the channel waits for.
  void add_wanted(std::vector<pollfd>& wanted) const;
  /// Writes what can be written and reads what has come. \return the frames that are complete.
  [[nodiscard]] std::vector<nlohmann::json> exchange();
  /// True if nothing more will come.
  [[nodiscard]] bool has_ended() const { return !input_.is_open(); }
  /// Bytes that are sent but not written.
  [[nodiscard]] std::size_t waiting_bytes() const { return unsent_.size(); }
  /// Sends what is waiting, for at most `milliseconds`.
  void flush(int milliseconds);
  void close();

 private:
  void write();
  void read();
  void find_greeting();
  [[nodiscard]] std::optional<nlohmann::json> next_frame();

  Descriptor input_;
  Descriptor output_;
  std::string expected_;
  std::optional<std::string> greeting_;
  std::string received_;
  std::string unsent_;
};

}  // namespace strata::host
