#include "train/run/stop_strings.hpp"

#include <algorithm>
#include <utility>

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

std::string StopStrings::add(std::string_view piece) {
  if (ended_) return {};
  held_ += piece;
  std::size_t end = std::string::npos;
  std::size_t kept = 0;
  for (const std::string& string : strings_) {
    end = std::min(end, held_.find(string));
    kept = std::max(kept, begun(held_, string));
  }
  ended_ = end != std::string::npos;
  std::string certain = held_.substr(0, ended_ ? end : held_.size() - kept);
  held_.erase(0, ended_ ? held_.size() : certain.size());
  return certain;
}

std::string StopStrings::rest() { return std::exchange(held_, {}); }

}  // namespace strata::host
