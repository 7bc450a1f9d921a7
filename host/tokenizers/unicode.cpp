#include "tokenizers/unicode.hpp"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "strata/error.hpp"
#include "strata/vocabulary.hpp"
#include "tokenizers/older_unicode.hpp"

namespace strata::host {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
/// Code points below this one are the same in NFC, and none of them joins a preceding one.
constexpr char32_t kFirstMark = 0x300;

struct Sequence {
  /// Bytes of the sequence, or of its longest valid beginning. At least 1.
  std::size_t bytes = 1;
  bool valid = false;
};

/// The allowed second bytes depend on the first one (table 3-7 of the Unicode standard).
Sequence sequence_at(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(position);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {};
  const std::size_t wanted = code_point_bytes(text[position]);
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < wanted; ++i) {
    if (position + i >= text.size() || byte(position + i) < low || byte(position + i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {wanted, true};
}

utf8proc_category_t category_of(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

utf8proc_option_t options_of(NormalForm form) {
  unsigned options = UTF8PROC_STABLE;
  options |= form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

void append_todays_form(std::string& result, std::string_view text, NormalForm form) {
  if (text.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &mapped, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, std::free);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (size < 0) throw RuntimeError(std::string("a text has no normal form: ") + utf8proc_errmsg(size));
  result.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

void append_normal_form(std::string& result, std::string_view text, NormalForm form) {
  std::size_t begin = 0;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t at = position;
    if (!has_no_normal_form_yet(read_code_point(text, position))) continue;
    append_todays_form(result, text.substr(begin, at - begin), form);
    result.append(text, at, position - at);
    begin = position;
  }
  append_todays_form(result, text.substr(begin), form);
}

}  // namespace

std::optional<std::size_t> first_invalid_byte(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const Sequence sequence = sequence_at(text, position);
    if (!sequence.valid) return position;
    position += sequence.bytes;
  }
  return std::nullopt;
}

char32_t read_code_point(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  const std::size_t bytes = code_point_bytes(text[position]);
  char32_t code_point = 0;
  if (bytes == 1) code_point = byte(0);
  if (bytes == 2) code_point = (byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU);
  if (bytes == 3) code_point = (byte(0) & 0xFU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
  if (bytes == 4) {
    code_point = (byte(0) & 7U) << 18U | (byte(1) & 0x3FU) << 12U | (byte(2) & 0x3FU) << 6U | (byte(3) & 0x3FU);
  }
  position += bytes;
  return code_point;
}

bool is_white_space(char32_t code_point) {
  if (code_point < 0x80) return code_point == ' ' || (code_point >= '\t' && code_point <= '\r');
  return code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 || code_point == 0x2029 ||
         code_point == 0x202F || code_point == 0x205F || code_point == 0x3000;
}

bool is_numeric(char32_t code_point) {
  const utf8proc_category_t category = category_of(code_point);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t code_point) {
  if (code_point < 0x80) {
    const bool letter = (code_point | 0x20U) >= 'a' && (code_point | 0x20U) <= 'z';
    return code_point > ' ' && code_point < 0x7F && !letter && !(code_point >= '0' && code_point <= '9');
  }
  const utf8proc_category_t category = category_of(code_point);
  return was_punctuation(code_point, category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO);
}

bool is_word_character(char32_t code_point) {
  const utf8proc_category_t category = category_of(code_point);
  const bool is_joiner = code_point == 0x200C || code_point == 0x200D;
  // Letters in circles and squares. All other characters of the property Other_Alphabetic are marks.
  const bool is_enclosed =
      (code_point >= 0x24B6 && code_point <= 0x24E9) || (code_point >= 0x1F130 && code_point <= 0x1F149) ||
      (code_point >= 0x1F150 && code_point <= 0x1F169) || (code_point >= 0x1F170 && code_point <= 0x1F189);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC ||
         is_joiner || is_enclosed;
}

bool is_mark(char32_t code_point) {
  const utf8proc_category_t category = category_of(code_point);
  return was_mark(code_point, category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME);
}

std::string normal_form(std::string_view text, NormalForm form) {
  std::string result;
  result.reserve(text.size());
  // NFKC changes some code points of Latin-1, which NFC leaves as they are.
  const char32_t plain_end = form == NormalForm::nfc ? kFirstMark : 0x80;
  std::size_t copied = 0;   // End of the text that `result` has.
  std::size_t complex = 0;  // Begin of the text that the library normalises, if it is behind `copied`.
  bool in_complex = false;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    const bool plain = read_code_point(text, position) < plain_end;
    if (!plain && !in_complex) {
      in_complex = true;
      result.append(text, copied, complex - copied);
      copied = complex;
    } else if (plain && in_complex) {
      in_complex = false;
      append_normal_form(result, text.substr(copied, begin - copied), form);
      copied = begin;
    }
    // A mark may join the plain code point before it.
    if (plain) complex = begin;
  }
  if (in_complex) {
    append_normal_form(result, text.substr(copied), form);
  } else {
    result.append(text, copied);
  }
  return result;
}

std::string lower_case(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const char32_t code_point = read_code_point(text, position);
    if (code_point == 0x130) {
      result += "i\xCC\x87";
    } else {
      append_code_point(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))));
    }
  }
  return result;
}

std::size_t grapheme_end(std::string_view text, std::size_t begin) {
  utf8proc_int32_t state = 0;
  std::size_t position = begin;
  char32_t last = read_code_point(text, position);
  while (position < text.size()) {
    std::size_t next = position;
    const char32_t code_point = read_code_point(text, next);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last), static_cast<utf8proc_int32_t>(code_point),
                                         &state)) {
      break;
    }
    last = code_point;
    position = next;
  }
  return position;
}

std::string lossy_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t position = 0; position < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, position);
    text += sequence.valid ? bytes.substr(position, sequence.bytes) : kReplacement;
    position += sequence.bytes;
  }
  return text;
}

}  // namespace strata::host
