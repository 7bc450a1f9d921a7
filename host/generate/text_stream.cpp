#include "generate/text_stream.hpp"

#include <algorithm>

namespace strata::host {
namespace {

/// Length of the longest end of `text` that is a beginning of `string`, but not all of it.
std::size_t begun(const std::string& text, const std::string& string) {
  for (std::size_t length = std::min(text.size(), string.size() - 1); length > 0; --length) {
    if (text.compare(text.size() - length, length, string, 0, length) == 0) return length;
  }
  return 0;
}

constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";
/// Tokens that wait for the rest of a letter. No letter has more bytes.
constexpr std::size_t kMostHeld = 4;

}  // namespace

std::string StopStrings::add(std::string_view piece, std::size_t hidden) {
  if (ended_) return {};
  held_ += piece;
  is_shown_.resize(held_.size() - hidden, true);
  is_shown_.resize(held_.size(), false);
  std::size_t end = std::string::npos;
  std::size_t kept = 0;
  for (const std::string& string : strings_) {
    end = std::min(end, held_.find(string));
    kept = std::max(kept, begun(held_, string));
  }
  ended_ = end != std::string::npos;
  std::string certain = take(ended_ ? end : held_.size() - kept);
  if (ended_) held_.clear();
  return certain;
}

std::string StopStrings::rest() { return take(held_.size()); }

std::string StopStrings::take(std::size_t bytes) {
  std::string shown;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (is_shown_[i]) shown += held_[i];
  }
  held_.erase(0, bytes);
  is_shown_.erase(is_shown_.begin(), is_shown_.begin() + static_cast<std::ptrdiff_t>(bytes));
  return shown;
}

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
