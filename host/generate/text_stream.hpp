#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer.hpp"

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

/// Decodes a text while its tokens are chosen. A letter whose bytes are several tokens comes with the last of them, so
/// no UTF-8 sequence is cut. Example: "é" as <0xC3> <0xA9> gives "" and "é".
class TextStream {
 public:
  /// `prompt`: the tokens before the text, which the stream doesn't repeat. They tell whether a first space counts.
  TextStream(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt);

  /// The text that is known with one more token. It may be empty.
  [[nodiscard]] std::string add(std::int32_t token);
  /// The rest, which no further token completes.
  [[nodiscard]] std::string finish();

 private:
  const Tokenizer& tokenizer_;
  /// The last tokens: those of text that is printed, and those of the text after it.
  std::vector<std::int32_t> window_;
  /// Number of tokens of the window whose text is printed.
  std::size_t settled_ = 0;
  /// Bytes of the window's text that are printed.
  std::size_t printed_ = 0;
};

}  // namespace strata::host
