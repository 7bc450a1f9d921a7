#include "layout_rule.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "strata/error.hpp"
#include "strata/options.hpp"

namespace strata::layout {
namespace {

constexpr std::string_view kDigits = "0123456789";
/// More digits than any model has of layers.
constexpr std::size_t kMostDigits = 9;

OptionError refusal(const std::string& rule, const std::string& fault, const std::string& accepted) {
  return {"rules", "found \"" + rule + "\"" + fault + "; accepted: " + accepted};
}

/// The text between separators, without blanks around it.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    const std::size_t first = std::min(text.find_first_not_of(' ', begin), end);
    const std::size_t last = text.find_last_not_of(' ', end - 1);
    words.push_back(first == end ? "" : text.substr(first, last + 1 - first));
    begin = end + 1;
  }
  return words;
}

/// The names, each once, with * for numbers.
std::vector<std::string> patterns_of(const Graph& graph) {
  std::vector<std::string> patterns;
  for (const Node& node : graph.nodes()) {
    if (node.is_leaf()) continue;
    std::vector<std::string> parts = parts_of(node.name);
    std::replace_if(parts.begin(), parts.end(), is_number, "*");
    std::string pattern = join(parts, ".");
    if (!contains(patterns, pattern)) patterns.push_back(std::move(pattern));
  }
  return patterns;
}

}  // namespace

std::vector<std::string> parts_of(std::string_view name) { return split(std::string(name), '.'); }

bool is_number(const std::string& part) {
  return !part.empty() && part.size() <= kMostDigits && part.find_first_not_of(kDigits) == std::string::npos;
}

Dims dims_of(const Graph& graph, const Node& node) {
  Dims dims;
  const auto add = [&](const TensorType& type) {
    for (const Dim& dim : type.dims) {
      if (!contains(dims, dim)) dims.push_back(dim);
    }
  };
  for (const Value& operand : node.operands) add(graph.type(operand));
  for (const TensorType& result : node.results) add(result);
  return dims;
}

NamePattern::NamePattern(const std::string& text) {
  for (std::string& part : parts_of(text)) {
    const std::size_t dash = std::min(part.find('-'), part.size());
    const std::string first = part.substr(0, dash);
    const std::string last = dash < part.size() ? part.substr(dash + 1) : "";
    Part made{std::move(part), is_number(first) && is_number(last)};
    if (made.is_range) {
      made.first = std::stol(first);
      made.last = std::stol(last);
      if (made.first > made.last) throw refusal(text, "", "a range whose first number is not the larger one");
    }
    parts_.push_back(std::move(made));
  }
}

bool NamePattern::Part::fits(const std::string& part) const {
  if (!is_range) return fnmatch(text.c_str(), part.c_str(), 0) == 0;
  if (!is_number(part)) return false;
  const long number = std::stol(part);
  return first <= number && number <= last;
}

bool NamePattern::names(const std::vector<std::string>& parts) const {
  return parts.size() >= parts_.size() &&
         std::equal(parts_.begin(), parts_.end(), parts.begin(),
                    [](const Part& part, const std::string& text) { return part.fits(text); });
}

bool LayoutRule::names(const std::vector<std::string>& parts) const {
  return std::any_of(patterns.begin(), patterns.end(), [&](const NamePattern& each) { return each.names(parts); });
}

LayoutRule parse_rule(const std::string& text) {
  const std::vector<std::string> sides = split(text, ':');
  LayoutRule rule{text, {}, {}};
  if (sides.size() == 2) {
    for (const std::string& pattern : split(sides[0], ',')) {
      if (!pattern.empty()) rule.patterns.emplace_back(pattern);
    }
    for (const std::string& dim : split(sides[1], ',')) {
      if (!dim.empty()) rule.dims.push_back(dim);
    }
  }
  if (rule.patterns.empty() || rule.dims.empty()) {
    throw refusal(text, "", "patterns of names and dimensions, such as \"h.0-3, lm_head: heads, ffn\"");
  }
  return rule;
}

std::size_t rule_of(const std::vector<LayoutRule>& rules, std::string_view name) {
  const std::vector<std::string> parts = parts_of(name);
  const auto first =
      std::find_if(rules.begin(), rules.end(), [&](const LayoutRule& each) { return each.names(parts); });
  return static_cast<std::size_t>(first - rules.begin());
}

void require_effect(const std::vector<LayoutRule>& rules, const Graph& graph, int ranks) {
  std::vector<std::set<Dim>> found(rules.size());
  std::vector<bool> names_something(rules.size());
  for (const Node& node : graph.nodes()) {
    const std::size_t rule = node.is_input() ? rules.size() : rule_of(rules, node.name);
    if (rule == rules.size()) continue;
    names_something[rule] = true;
    const Dims dims = dims_of(graph, node);
    found[rule].insert(dims.begin(), dims.end());
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::vector<std::string> dims(found[i].begin(), found[i].end());
    if (!names_something[i]) {
      throw refusal(rules[i].text, ", which names nothing that no earlier rule names",
                    "patterns of names, which are " + join(patterns_of(graph), ", "));
    }
    for (const Dim& dim : rules[i].dims) {
      if (!found[i].contains(dim)) {
        throw refusal(rules[i].text, ", where nothing has the dimension '" + dim + "'", join(dims, ", "));
      }
      const std::int64_t size = graph.sizes.at(dim);
      if (size % ranks == 0) continue;
      throw refusal(rules[i].text, ", whose dimension '" + dim + "' has size " + std::to_string(size),
                    "dimensions whose size is a multiple of the axis' " + std::to_string(ranks) + " ranks");
    }
  }
}

}  // namespace strata::layout
