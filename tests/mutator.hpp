#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "random_choice.hpp"

namespace strata::testing {

/// Alters valid inputs at random, the same way for the same seed.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : choice_(seed, "mutator") {}

  RandomChoice& choice() { return choice_; }
  template <class Integer>
  Integer below(Integer bound) {
    return choice_.below(bound);
  }

  std::string random_bytes(std::size_t most) {
    std::string bytes(below(most + 1), '\0');
    for (char& byte : bytes) byte = static_cast<char>(below(256));
    return bytes;
  }

  /// One to four changes of bytes: flipped bits, bytes replaced, removed, inserted or repeated, and ends cut off. One
  /// mutant of 16 has random bytes only.
  std::string bytes(std::string text) {
    if (below(16) == 0) return random_bytes(std::min<std::size_t>(2 * text.size(), 4096));
    for (int left = below(4); left >= 0 && !text.empty(); --left) change_byte(text, below(text.size()));
    return text;
  }

  /// One to three changes of lines: repeated, removed, exchanged, or with another value after `=`.
  std::string lines(const std::string& text) {
    std::vector<std::string> lines = lines_of(text);
    for (int left = below(3); left >= 0 && !lines.empty(); --left) change_line(lines);
    std::string result;
    for (const std::string& line : lines) result += line + '\n';
    return result;
  }

  /// A value of TOML or JSON that is extreme, long, deep, of another type, or none at all.
  std::string value() {
    const auto repeated = [&](const std::string& piece, int most) {
      std::string text;
      for (int left = below(most); left >= 0; --left) text += piece;
      return text;
    };
    switch (below(8)) {
      case 0:
        return choice_.of<std::string>({"0", "-1", "1", "3", "9223372036854775807", "-9223372036854775808",
                                        "9223372036854775808", "4611686018427387904", "2147483648", "1000000"});
      case 1:
        return choice_.of<std::string>({"nan", "-inf", "1e308", "-1e308", "1e999", "5e-324", "-0.0", "0.5", "1e18"});
      case 2:
        return choice_.of<std::string>({"\"\"", "\"\\u001b[2J\"", "\"\\u0000\"", "\"\\u009b\"", "'\xff\xfe'",
                                        "\"\x1b]0;\"", "\"\\U0010FFFF\"", "\"/dev/zero\"", "\"../../..\"", "\"a\\nb\"",
                                        "\"*\"", "\"["});
      case 3:
        return choice_.of<std::string>({"true", "[]", "{}", "[[]]", "2024-01-01", "[1, \"a\"]", "[nan, -1]", "[true]",
                                        "[{}, {}]", "{ kind = 1 }", "[\"\", \"\"]", "null"});
      case 4:
        return '"' + repeated(choice_.of<std::string>({"x", "é", "\\u001b", "\\\\", "/"}), 20000) + '"';
      case 5:
        return repeated("[", 3000) + repeated("]", 3000);
      case 6:
        return repeated(choice_.of<std::string>({"{a=", "{a.b.c=", "[{a="}), 1000) + "1";
      default:
        return "[" + repeated(choice_.of<std::string>({"1, ", "\"w\", ", "1e300, "}), 5000) + "1]";
    }
  }

  /// A line that configurations do not have.
  std::string strange_line() {
    std::string chain;
    for (int left = below(20000); left > 0; --left) chain += "a.";
    return choice_.of<std::string>({"[" + chain + "a]", chain + "a = 1", "[[" + chain + "a]]", "\"\x1b[31m\" = 1",
                                    "\"\\u001b[31m\" = 1", "[[strategy]]", "[run", "= 1", "\xff", std::string(1, '\0'),
                                    "[\"" + std::string(below(std::size_t{20000}), 'k') + "\"]", "'''", "\"\"\""});
  }

 private:
  void change_byte(std::string& text, std::size_t at) {
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = choice_.of<char>({'\0', '\1', '\x1b', '\x7f', '\x80', '\xff'});
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.erase(at, 1 + below(std::size_t{16}));
        break;
      case 4:
        text.insert(at, random_bytes(8));
        break;
      case 5:
        text.insert(at, text.substr(below(text.size()), 1 + below(std::size_t{40})));
        break;
      default:
        text.insert(at, "9999999999");
    }
  }

  void change_line(std::vector<std::string>& lines) {
    const std::size_t at = below(lines.size());
    const std::string line = lines[at];
    const std::size_t equals = line.find('=');
    switch (below(8)) {
      case 0:
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(below(lines.size())), line);
        break;
      case 1:
        lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 2:
        std::swap(lines[at], lines[below(lines.size())]);
        break;
      case 3:
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), strange_line());
        break;
      default:
        if (equals != line.npos) lines[at] = line.substr(0, equals) + "= " + value();
    }
  }

  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines(1);
    for (const char letter : text) {
      if (letter == '\n') {
        lines.emplace_back();
      } else {
        lines.back() += letter;
      }
    }
    return lines;
  }

  RandomChoice choice_;
};

/// True if a terminal prints `text` as it is, and in reasonable space.
inline bool is_presentable(const std::string& text, std::size_t most = 8192) {
  return !text.empty() && text.size() <= most && std::none_of(text.begin(), text.end(), [](char letter) {
    const auto code = static_cast<unsigned char>(letter);
    return (code < 0x20 && letter != '\n' && letter != '\t') || code == 0x7F;
  });
}

}  // namespace strata::testing
