#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::host {

/// Ends a text before the first stop string in it. Text arrives in pieces, and a stop string may span several. Pieces
/// may end in text that is not shown, such as a special token's, but that stop strings see.
class StopStrings {
 public:
  /// None of `strings` is empty.
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  /// Adds a piece, of which the last `hidden` bytes are not shown. \return the text to show that is certain now: it
  /// belongs to no stop string.
  [[nodiscard]] std::string add(std::string_view piece, std::size_t hidden = 0);
  /// True once a stop string is complete. What follows it is dropped.
  [[nodiscard]] bool has_ended() const { return ended_; }
  /// The text that was held back because a stop string might have begun. Call it when the text is complete.
  [[nodiscard]] std::string rest();

 private:
  /// Takes the first `bytes` bytes from the held text. \return those that are shown.
  [[nodiscard]] std::string take(std::size_t bytes);

  std::vector<std::string> strings_;
  /// The end of the text, which may be the beginning of a stop string, and for each byte whether it is shown.
  std::string held_;
  std::vector<bool> is_shown_;
  bool ended_ = false;
};

}  // namespace strata::host
