#include "foreign/argument_document.hpp"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "foreign/shell_words.hpp"
#include "foreign/yaml_document.hpp"

namespace strata::host {
namespace {

bool is_argument(const ShellWord& word) { return word.text.size() > 2 && word.text.starts_with("--"); }

/// "--fp8-format hybrid" in quotes is two words for the program, which gets it without quotes.
std::vector<ShellWord> split(const std::vector<ShellWord>& command) {
  std::vector<ShellWord> words;
  for (const ShellWord& each : command) {
    std::istringstream parts(each.text);
    for (std::string word; parts >> word;) words.push_back({word, each.place});
  }
  return words;
}

/// The words of the command that trains: the last one that says a model's size. In a file of arguments, all words.
std::vector<ShellWord> training_command(const ShellScript& script, const std::string& source) {
  const bool is_file = !script.commands.empty() && script.commands.front().front().text.starts_with("--");
  std::vector<ShellWord> found;
  for (const std::vector<ShellWord>& command : script.commands) {
    std::vector<ShellWord> words = split(command);
    const bool trains = std::ranges::any_of(words, [](const ShellWord& word) {
      return word.text.starts_with("--num-layers") || word.text.starts_with("--num_layers");
    });
    if (is_file) {
      found.insert(found.end(), words.begin(), words.end());
    } else if (trains) {
      found = std::move(words);
    }
  }
  if (found.empty()) {
    throw error_at({source, 0, 0}, "", "found no command with --num-layers; accepted: arguments of Megatron-LM");
  }
  return found;
}

/// The value of an argument with these words behind it.
OptionValue value_of(const std::vector<std::string>& words) {
  if (words.empty()) return true;
  if (words.size() == 1) return scalar_value(words.front());
  std::vector<double> numbers;
  for (const std::string& word : words) {
    const OptionValue value = scalar_value(word);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) numbers.push_back(static_cast<double>(*integer));
    if (const auto* number = std::get_if<double>(&value)) numbers.push_back(*number);
  }
  if (numbers.size() == words.size()) return numbers;
  return words;
}

void set(DocumentNode& document, DocumentNode argument) {
  if (DocumentNode* earlier = document.find(argument.key)) {
    *earlier = std::move(argument);
  } else {
    document.children.push_back(std::move(argument));
  }
}

}  // namespace

DocumentNode parse_arguments(const std::string& text, const std::string& source) {
  const ShellScript script = read_shell_script(text, source);
  const std::vector<ShellWord> words = training_command(script, source);
  DocumentNode document;
  document.place = {source, 0, 0};
  for (std::size_t i = 0; i < words.size();) {
    const ShellWord& word = words[i++];
    if (!is_argument(word)) continue;
    const std::size_t equals = word.text.find('=');
    DocumentNode argument;
    argument.kind = DocumentNode::Kind::value;
    argument.key = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::ranges::replace(argument.key, '_', '-');
    argument.key_place = argument.place = word.place;
    std::vector<std::string> values;
    if (equals != std::string::npos) values.push_back(word.text.substr(equals + 1));
    // The program itself stands between the arguments of the launcher and its own.
    while (i < words.size() && !is_argument(words[i]) && !words[i].text.ends_with(".py")) {
      values.push_back(words[i++].text);
    }
    argument.value = value_of(values);
    set(document, std::move(argument));
  }
  if (!script.conditions.empty()) {
    DocumentNode condition;
    condition.kind = DocumentNode::Kind::value;
    condition.key = "if";
    condition.key_place = condition.place = script.conditions.front();
    condition.value = true;
    set(document, std::move(condition));
  }
  return document;
}

}  // namespace strata::host
