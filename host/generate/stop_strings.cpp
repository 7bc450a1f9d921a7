#include "generate/stop_strings.hpp"

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

}  // namespace strata::host
