#include "cli/safe_output.hpp"

#include <algorithm>
#include <utility>

#include "files/message_text.hpp"

namespace strata::host {
namespace {

constexpr std::size_t kMostPending = std::size_t{64} << 10U;
/// Bytes of the longest character.
constexpr std::size_t kLongestCharacter = 4;

/// Where the last character of `text` begins if bytes of it are missing, else the end.
std::size_t complete_part(const std::string& text) {
  for (std::size_t back = 1; back <= std::min(kLongestCharacter - 1, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t needed = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return needed > back ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace

void SafeOutput::Buffer::pass_on(bool with_incomplete) {
  const std::size_t end = with_incomplete || is_raw_ ? pending_.size() : complete_part(pending_);
  const std::string rest = pending_.substr(end);
  pending_.resize(end);
  target_ << (is_raw_ ? pending_ : message_text(pending_));
  pending_ = rest;
}

void SafeOutput::Buffer::leave_as_it_is() {
  pass_on(true);
  is_raw_ = true;
}

SafeOutput::Buffer::int_type SafeOutput::Buffer::overflow(int_type character) {
  const char byte = traits_type::to_char_type(character);
  return traits_type::eq_int_type(character, traits_type::eof()) || xsputn(&byte, 1) == 1
             ? traits_type::not_eof(character)
             : traits_type::eof();
}

std::streamsize SafeOutput::Buffer::xsputn(const char* text, std::streamsize count) {
  if (count == 0) return 0;
  pending_.append(text, static_cast<std::size_t>(count));
  // A terminal shows each line at once.
  if (pending_.back() == '\n' || pending_.size() > kMostPending) pass_on(false);
  return target_ ? count : 0;
}

int SafeOutput::Buffer::sync() {
  pass_on(false);
  if (target_.flush()) return 0;
  // Whoever goes on in spite of this may have given the target another file.
  target_.clear();
  return -1;
}

}  // namespace strata::host
