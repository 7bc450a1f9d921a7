#include "files/json_text.hpp"

#include <string>

#include "files/message_text.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// True if brackets are nested deeper than accepted. Brackets in strings do not count.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepestJson) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

nlohmann::json parse_json_text(std::string_view text, const nlohmann::json::parser_callback_t& callback) {
  if (is_too_deep(text)) {
    throw RuntimeError("has JSON that is nested deeper than " + std::to_string(kDeepestJson) + " levels");
  }
  return nlohmann::json::parse(text, callback, false);
}

void write_json(std::ostream& out, const nlohmann::ordered_json& document) {
  const std::string text = json_text(document, 2);
  // Control characters that JSON permits as they are, such as DEL, become \\u007f.
  const bool is_printable = message_text(text) == text;
  out << (is_printable ? text : document.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace)) << '\n';
}

}  // namespace strata::host
