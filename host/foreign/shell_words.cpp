#include "foreign/shell_words.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "files/text_format.hpp"

namespace strata::host {
namespace {

/// Words that variables may make of a script.
constexpr std::size_t kMostWords = 10000;
/// Characters of a word, which variables may repeat.
constexpr std::size_t kLongestWord = 1 << 16;

bool is_name(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }
bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

/// True for a letter that ends a word, and is none itself.
bool is_separator(char letter) { return std::string_view("\n;&|()").find(letter) != std::string_view::npos; }

class ShellReader {
 public:
  ShellReader(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {}

  ShellScript run() {
    while (at_ < text_.size()) {
      skip_blanks();
      if (at_ >= text_.size()) break;
      if (is_separator(text_[at_])) {
        ++at_;
        end_command();
      } else if (!assign()) {
        add_words(command_);
      }
    }
    end_command();
    return std::move(script_);
  }

 private:
  using Words = std::vector<ShellWord>;

  [[nodiscard]] Place place(std::size_t position) {
    for (; counted_ < position; ++counted_) {
      if (text_[counted_] != '\n') continue;
      ++line_;
      line_begin_ = counted_ + 1;
    }
    return {source_, line_, static_cast<std::uint32_t>(position - line_begin_ + 1)};
  }

  void end_command() {
    if (command_.empty()) return;
    const std::string& first = command_.front().text;
    if (first == "if" || first == "elif" || first == "case") script_.conditions.push_back(command_.front().place);
    script_.commands.push_back(std::exchange(command_, {}));
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_blank(text_[at_])) {
        ++at_;
      } else if (text_.substr(at_, 2) == "\\\n") {
        at_ += 2;
      } else if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  /// Reads NAME=WORD, NAME=(WORDS) or one of them with +=. \return false if something else stands here.
  bool assign() {
    std::size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const bool adds = text_.substr(end, 2) == "+=";
    const std::size_t value = end + (adds ? 2 : 1);
    if (end == at_ || (!adds && text_.substr(end, 1) != "=")) return false;
    // `export NAME=` and `local NAME=` are assignments, `python x.py lr=1` is none.
    if (!command_.empty() && command_.front().text != "export" && command_.front().text != "local") return false;
    const std::string name(text_.substr(at_, end - at_));
    at_ = value;
    Words words;
    if (text_.substr(at_, 1) == "(") {
      read_array(words);
    } else if (at_ < text_.size() && !is_blank(text_[at_]) && text_[at_] != '\n') {
      add_words(words);
    }
    Words& variable = variables_[name];
    if (!adds) variable.clear();
    variable.insert(variable.end(), words.begin(), words.end());
    return true;
  }

  void read_array(Words& words) {
    const Place begin = place(at_++);
    while (true) {
      skip_blanks();
      if (at_ >= text_.size()) throw error_at(begin, "", "the array does not end; accepted: ')' after its words");
      if (text_[at_] == ')') break;
      if (is_separator(text_[at_])) {
        ++at_;
      } else {
        add_words(words);
      }
    }
    ++at_;
  }

  /// Adds the word that begins here: several, if a variable outside of quotes has several.
  void add_words(Words& words) {
    if (words.size() > kMostWords) throw error_at(place(at_), "", "variables make too many words of this script");
    word_ = {"", place(at_)};
    has_word_ = false;
    while (at_ < text_.size() && !is_blank(text_[at_]) && !is_separator(text_[at_])) {
      take(words);
      if (word_.text.size() > kLongestWord) throw error_at(word_.place, "", "the word is too long");
    }
    if (has_word_) words.push_back(word_);
  }

  void take(Words& words) {
    const char letter = text_[at_];
    if (letter == '\\') {
      if (text_.substr(at_ + 1, 1) != "\n") append(text_.substr(at_ + 1, 1));
      at_ = std::min(at_ + 2, text_.size());
    } else if (letter == '\'') {
      const std::size_t end = text_.find('\'', at_ + 1);
      if (end == std::string_view::npos) throw error_at(place(at_), "", "the quote does not end");
      append(text_.substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
    } else if (letter == '"') {
      take_quoted(words);
    } else if (letter == '$') {
      expand(words, false);
    } else {
      append(text_.substr(at_++, 1));
    }
  }

  void take_quoted(Words& words) {
    const Place begin = place(at_++);
    append("");
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '$') {
        expand(words, true);
        continue;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      if (text_[at_] == '\n') {
        append(" ");
        ++at_;
      } else {
        append(text_.substr(at_++, 1));
      }
    }
    if (at_ >= text_.size()) throw error_at(begin, "", "the quote does not end");
    ++at_;
  }

  void append(std::string_view text) {
    word_.text += text;
    has_word_ = true;
  }

  /// Replaces what begins with '$' here.
  void expand(Words& words, bool is_quoted) {
    const std::size_t begin = at_++;
    if (text_.substr(at_, 2) == "((") return append(arithmetic());
    if (text_.substr(at_, 1) == "(") {
      skip_brackets('(', ')');
      return append(text_.substr(begin, at_ - begin));
    }
    std::string name;
    std::optional<std::string> otherwise;
    if (text_.substr(at_, 1) == "{") {
      const std::size_t inside = at_ + 1;
      skip_brackets('{', '}');
      std::string_view rest = text_.substr(inside, at_ - 1 - inside);
      while (!rest.empty() && is_name(rest.front())) take_front(rest, name);
      if (rest.starts_with(":-")) otherwise = unquoted(rest.substr(2));
    } else {
      while (at_ < text_.size() && is_name(text_[at_])) name += text_[at_++];
    }
    const auto found = variables_.find(name);
    if (found == variables_.end()) return append(otherwise ? *otherwise : text_.substr(begin, at_ - begin));
    insert(found->second, words, is_quoted);
  }

  static void take_front(std::string_view& rest, std::string& name) {
    name += rest.front();
    rest.remove_prefix(1);
  }

  static std::string unquoted(std::string_view text) {
    if (text.size() >= 2 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'')) {
      text = text.substr(1, text.size() - 2);
    }
    return std::string(text);
  }

  void insert(const Words& value, Words& words, bool is_quoted) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) {
        // Words in quotes stay apart too: the one that matters is "${ARRAY[@]}".
        words.push_back(word_);
        word_ = {"", value[i].place};
      } else if (word_.text.empty() && !is_quoted) {
        word_.place = value[i].place;
      }
      append(value[i].text);
    }
  }

  /// Moves behind the bracket that closes the one here.
  void skip_brackets(char open, char close) {
    const Place begin = place(at_);
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == open) ++depth;
      if (text_[at_] == close && --depth == 0) {
        ++at_;
        return;
      }
    }
    throw error_at(begin, "", std::string("the bracket is not closed; accepted: '") + close + "'");
  }

  /// The product that stands in $((…)), or the text itself if it is something else.
  std::string arithmetic() {
    const std::size_t begin = at_;
    skip_brackets('(', ')');
    const std::string_view text = text_.substr(begin, at_ - begin);
    std::int64_t product = 1;
    std::string factor;
    for (const char letter : text.substr(2)) {
      if (is_name(letter)) factor += letter;
      if (is_name(letter) || letter == '$' || letter == '{' || letter == '}' || is_blank(letter)) continue;
      const auto number = number_of(factor);
      if (!number || (letter != '*' && letter != ')')) return "$" + std::string(text);
      if (__builtin_mul_overflow(product, *number, &product)) return "$" + std::string(text);
      if (letter == ')') break;
      factor.clear();
    }
    return std::to_string(product);
  }

  [[nodiscard]] std::optional<std::int64_t> number_of(const std::string& word) const {
    const auto found = variables_.find(word);
    const bool is_variable = found != variables_.end() && found->second.size() == 1;
    return parse_number<std::int64_t>(is_variable ? found->second.front().text : word);
  }

  std::string_view text_;
  std::string source_;
  std::size_t at_ = 0;
  /// place() has counted the lines up to here.
  std::size_t counted_ = 0;
  std::size_t line_begin_ = 0;
  std::uint32_t line_ = 1;
  std::map<std::string, Words> variables_;
  Words command_;
  ShellWord word_;
  bool has_word_ = false;
  ShellScript script_;
};

}  // namespace

ShellScript read_shell_script(const std::string& text, const std::string& source) {
  return ShellReader(text, source).run();
}

}  // namespace strata::host
