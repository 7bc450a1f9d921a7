#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/graph.hpp"
#include "strata/tensor.hpp"

namespace strata::layout {

/// A pattern of names whose parts lie between dots. It names what begins with parts that fit its own, so a module and
/// all in it: "h.0-3.mlp" names h.2.mlp.c_fc. A part is a range of numbers, or a pattern as fnmatch() understands it.
class NamePattern {
 public:
  /// \throws OptionError of `rules` if a range ends before it begins.
  explicit NamePattern(const std::string& text);

  /// `parts`: of a name.
  [[nodiscard]] bool names(const std::vector<std::string>& parts) const;

 private:
  struct Part {
    std::string text;
    bool is_range = false;
    long first = 0;
    long last = 0;

    [[nodiscard]] bool fits(const std::string& part) const;
  };

  std::vector<Part> parts_;
};

/// Which dimensions of which ops and tensors an axis may shard, the preferred one first.
struct LayoutRule {
  /// As the configuration has it: "h.0-3, lm_head: heads, ffn".
  std::string text;
  std::vector<NamePattern> patterns;
  Dims dims;

  /// `parts`: of a name.
  [[nodiscard]] bool names(const std::vector<std::string>& parts) const;
};

/// \throws OptionError of `rules` if the text is no rule.
[[nodiscard]] LayoutRule parse_rule(const std::string& text);

/// The position of the first rule that names `name`; the number of rules: none does.
[[nodiscard]] std::size_t rule_of(const std::vector<LayoutRule>& rules, std::string_view name);

/// \throws OptionError of `rules` if a rule names nothing in the graph, or a dimension that nothing it names has, or
/// one that `ranks` do not divide.
void require_effect(const std::vector<LayoutRule>& rules, const Graph& graph, int ranks);

/// The parts of a name.
[[nodiscard]] std::vector<std::string> parts_of(std::string_view name);
[[nodiscard]] bool is_number(const std::string& part);
/// The dimensions that a node iterates: those of its operands and results.
[[nodiscard]] Dims dims_of(const Graph& graph, const Node& node);

}  // namespace strata::layout
