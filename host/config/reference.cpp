#include <algorithm>

#include "config/sections.hpp"

namespace strata::host {
namespace {

std::string default_text(const OptionSpecification& option) {
  return option.default_value ? strata::to_string(*option.default_value) : "required";
}

std::string wrapped(const std::string& text, const std::string& indent, std::size_t width = 100) {
  std::string result = indent;
  std::size_t column = indent.size();
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t space = std::min(text.find(' ', start), text.size());
    const std::size_t length = space - start;
    if (column + length > width && column > indent.size()) {
      result += "\n" + indent;
      column = indent.size();
    }
    result += text.substr(start, length);
    column += length;
    if (space < text.size() && column > indent.size()) {
      result += ' ';
      ++column;
    }
    start = space + 1;
  }
  // Remove the space at line ends that separated words.
  for (std::size_t at = result.find(" \n"); at != std::string::npos; at = result.find(" \n", at)) result.erase(at, 1);
  return result + "\n";
}

/// The option's documentation, and whether the ranks of a run may differ in it.
std::string documentation_of(const OptionSpecification& option) {
  return option.documentation + (option.may_differ ? " Ranks may differ in it." : "");
}

std::string in_cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

std::string markdown_section(const SectionDeclaration& section) {
  std::string text = "## `" + section.heading() + "`\n\n" + section.documentation + "\n\n";
  text += "| key | accepted | default | |\n|---|---|---|---|\n";
  for (const OptionSpecification& option : section.schema.options()) {
    const std::string fallback = option.default_value ? "`" + default_text(option) + "`" : "required";
    text += "| `" + option.name + "` | " + in_cell(accepted_values(option)) + " | " + fallback + " | " +
            in_cell(documentation_of(option)) + " |\n";
  }
  if (!section.notes.empty()) text += "\n";
  for (const std::string& note : section.notes) text += "- " + note + "\n";
  if (section.has_plugin())
    text += "\nThe section also has the plugin's own options: `strata plugins show NAME` lists them.\n";
  return text + "\n";
}

constexpr const char* kIntroduction = R"(# The configuration

One TOML file describes a run. An unknown key, a value of another type or a value out of range is an error that names
file, line and column. Any key can also be set on the command line, as often as needed:

```sh
strata train configs/ddp.toml --set model.layers=2 --set strategy.0.size=4 --set data.path=my.txt
```

- The value is TOML; a bare word is a string.
- `[[strategy]]`, `[[library]]` and `[[optimizer.group]]` tables are counted from 0. The number after the last one appends a table.
- A table `[cluster]` says for which machines `check` and `explain` judge the run ([clusters](clusters.md)).
- If a run has several processes, all keys have the same values in all of them, except those in which ranks may differ.
- Naming another plugin, as in `--set device.plugin=reference`, drops the options that the file gives to the one before.

The number of ranks is the product of the sizes of the strategies' axes.

`strata help configuration --markdown` writes this page.

)";

}  // namespace

std::string options_text(const OptionSchema& schema, const std::string& indent) {
  std::string text;
  for (const OptionSpecification& option : schema.options()) {
    const std::string fallback = option.default_value ? "default " + default_text(option) : "required";
    text += wrapped(option.name + ": " + accepted_values(option) + "; " + fallback, indent);
    text += wrapped(documentation_of(option), indent + "    ");
  }
  return text;
}

std::string reference_text() {
  std::string text;
  for (const SectionDeclaration& section : section_declarations()) {
    text += section.heading() + "\n" + wrapped(section.documentation, "  ") + options_text(section.schema);
    for (const std::string& note : section.notes) text += wrapped(note, "  ");
    if (section.has_plugin()) text += "  and the plugin's own options: strata plugins show NAME\n";
    text += "\n";
  }
  return text + "On the command line: --set model.layers=2, --set strategy.0.size=4; a bare word is a string.\n";
}

std::string reference_markdown() {
  std::string text = kIntroduction;
  for (const SectionDeclaration& section : section_declarations()) text += markdown_section(section);
  text.pop_back();
  return text;
}

}  // namespace strata::host
