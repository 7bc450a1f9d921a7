#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::host {

/// Ends a text before the first stop string in it. Text arrives in pieces, and a stop string may span several.
class StopStrings {
 public:
  /// None of `strings` is empty.
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  /// Adds a piece. \return the text that is certain now: it belongs to no stop string.
  [[nodiscard]] std::string add(std::string_view piece);
  /// True once a stop string is complete. What follows it is dropped.
  [[nodiscard]] bool has_ended() const { return ended_; }
  /// The text that was held back because a stop string might have begun. Call it when the text is complete.
  [[nodiscard]] std::string rest();

 private:
  std::vector<std::string> strings_;
  /// The end of the text, which may be the beginning of a stop string.
  std::string held_;
  bool ended_ = false;
};

}  // namespace strata::host
