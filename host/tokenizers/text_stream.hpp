#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer.hpp"

namespace strata::host {

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
