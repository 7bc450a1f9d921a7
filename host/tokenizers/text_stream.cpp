#include "tokenizers/text_stream.hpp"

#include <utility>

namespace strata::host {
namespace {

constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";
/// Tokens that wait for the rest of a letter. No letter has more bytes.
constexpr std::size_t kMostHeld = 4;

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt)
    : tokenizer_(tokenizer),
      window_(std::move(prompt)),
      settled_(window_.size()),
      printed_(tokenizer_.decode(window_).size()) {}

std::string TextStream::add(std::int32_t token) {
  window_.push_back(token);
  const std::string text = tokenizer_.decode(window_);
  std::size_t end = text.size();
  if (window_.size() - settled_ < kMostHeld) {
    while (end >= kUnfinished.size() && text.compare(end - kUnfinished.size(), kUnfinished.size(), kUnfinished) == 0) {
      end -= kUnfinished.size();
    }
  }
  if (end <= printed_) return "";
  std::string fresh = text.substr(printed_, end - printed_);
  printed_ = end;
  if (end == text.size()) {
    // The tokens before the last ones have no influence on what follows.
    window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(settled_));
    settled_ = window_.size();
    printed_ = tokenizer_.decode(window_).size();
  }
  return fresh;
}

std::string TextStream::finish() {
  const std::string text = tokenizer_.decode(window_);
  std::string rest = text.size() > printed_ ? text.substr(printed_) : "";
  printed_ = text.size();
  return rest;
}

}  // namespace strata::host
