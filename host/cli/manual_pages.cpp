#include "cli/manual_pages.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "config/sections.hpp"

namespace strata::host {
namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

/// Writes a manual page in the macros of man(7), which man and mandoc read.
class RoffPage {
 public:
  /// `title`: "strata-train". `section`: '1' for commands, '5' for files.
  RoffPage(std::string_view title, char section, std::string_view date) {
    line(".TH " + upper(escaped(title)) + " " + section + " \"" + std::string(date) +
         "\" \"Strata " STRATA_VERSION "\" \"Strata manual\"");
  }

  /// The section NAME, which whatis and apropos read.
  void name(std::string_view title, std::string_view purpose) {
    heading("NAME");
    line(escaped(title) + " \\- " + with_bold_words(purpose));
  }
  void heading(std::string_view text) {
    line(".SH " + escaped(text));
    after_heading_ = true;
  }
  void subheading(std::string_view text) {
    line(".SS " + escaped(text));
    after_heading_ = true;
  }
  /// A paragraph. Words in `backquotes` become bold.
  void paragraph(std::string_view text) {
    begin_paragraph();
    line(guarded(with_bold_words(text)));
  }
  /// An entry of a list: the term, and its explanation beside or below it.
  void entry(std::string_view term, std::string_view text) {
    line(".TP");
    line(term);
    line(guarded(with_bold_words(text)));
  }
  /// Lines that are printed as they are.
  void example(std::string_view lines) {
    begin_paragraph();
    line(".nf");
    line(".RS 4");
    while (!lines.empty()) {
      const std::size_t end = std::min(lines.find('\n'), lines.size());
      line(guarded(escaped(lines.substr(0, end))));
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
    line(".RE");
    line(".fi");
  }

  [[nodiscard]] const std::string& text() const { return text_; }

  /// Text in which roff finds no markup.
  [[nodiscard]] static std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
      if (c == '\\') {
        result += "\\e";
      } else if (c == '-') {
        result += "\\-";
      } else {
        result += c;
      }
    }
    return result;
  }
  /// Escaped text in another font.
  [[nodiscard]] static std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
  [[nodiscard]] static std::string italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }
  /// Adds a line that is roff already.
  void line(std::string_view markup) {
    text_ += markup;
    text_ += '\n';
    after_heading_ = false;
  }

 private:
  /// Escaped text with the words in `backquotes` in bold.
  static std::string with_bold_words(std::string_view text) {
    std::string result;
    bool in_quotes = false;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('`'), text.size());
      result += in_quotes ? bold(text.substr(0, end)) : escaped(text.substr(0, end));
      in_quotes = !in_quotes;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return result;
  }
  /// A line that begins with a dot or an apostrophe would be a request.
  static std::string guarded(const std::string& line) {
    return line.starts_with('.') || line.starts_with('\'') ? "\\&" + line : line;
  }
  void begin_paragraph() {
    if (!after_heading_) line(".PP");
  }

  std::string text_;
  /// A paragraph directly after a heading has no request of its own.
  bool after_heading_ = false;
};

constexpr const char* kPurpose = "composable parallel training of transformers";

constexpr const char* kExample = R"(strata check quickstart.toml
strata train quickstart.toml --set data.path=my.txt --set model.layers=2
strata generate runs/quickstart --prompt "The ")";

/// The first clause of a description, as the line of whatis has it: "train the model of a configuration".
std::string purpose_of(const CLI::App& command) {
  std::string text = command.get_description();
  text = text.substr(0, text.find(';'));
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::string sentence(const std::string& text) { return text.empty() || text.ends_with('.') ? text : text + "."; }

/// The name that stands for an option's value: "INT" for the type "INT:POSITIVE".
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

/// What --help shows of an option's value beside its name: accepted values and the default.
std::string value_notes(const CLI::Option& option) {
  std::string notes;
  const std::string type = option.get_type_name();
  if (const std::size_t colon = type.find(':'); colon != std::string::npos) {
    std::string accepted = type.substr(colon + 1);
    for (char& c : accepted) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    notes += " Accepted: " + accepted + ".";
  }
  if (!option.get_default_str().empty()) notes += " Default: " + option.get_default_str() + ".";
  return notes;
}

/// "-h, --help", or "--steps INT", in roff.
std::string term_of(const CLI::Option& option) {
  if (option.get_positional()) return RoffPage::italic(option.get_name());
  std::string term;
  for (const std::string& name : option.get_snames()) term += (term.empty() ? "" : ", ") + RoffPage::bold("-" + name);
  for (const std::string& name : option.get_lnames()) term += (term.empty() ? "" : ", ") + RoffPage::bold("--" + name);
  if (option.get_items_expected_max() > 0) term += " " + RoffPage::italic(value_name(option));
  return term;
}

void add_options(RoffPage& page, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    page.entry(term_of(*option), sentence(option->get_description()) + value_notes(*option));
  }
}

/// The line of SYNOPSIS: "strata train [OPTION]... CONFIG".
std::string synopsis(const CLI::App& app, const std::string& name) {
  std::string line = RoffPage::bold(name) + " [" + RoffPage::italic("OPTION") + "]...";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string word = RoffPage::italic(option->get_name());
    line += option->get_required() ? " " + word : " [" + word + "]";
  }
  return line;
}

void add_exit_status(RoffPage& page) {
  page.heading("EXIT STATUS");
  page.entry("0", "The command succeeded.");
  page.entry("1", "The command failed, or a verification did not hold.");
  page.entry("2", "The command line, the configuration or a plugin is wrong.");
}

/// The page of a command. Commands within it, such as `plugins list`, have sections of the page.
ManualPage command_page(const CLI::App& command, const std::string& date) {
  const std::string file = "strata-" + command.get_name();
  const std::string name = "strata " + command.get_name();
  const std::vector<const CLI::App*> parts = command.get_subcommands({});
  RoffPage page(file, '1', date);
  page.name(file, purpose_of(command));
  page.heading("SYNOPSIS");
  if (parts.empty()) page.line(synopsis(command, name));
  for (const CLI::App* part : parts) {
    page.line(synopsis(*part, name + " " + part->get_name()));
    if (part != parts.back()) page.line(".br");
  }
  page.heading("DESCRIPTION");
  page.paragraph(sentence(command.get_description()));
  if (!command.get_footer().empty()) page.paragraph(sentence(command.get_footer()));
  page.heading("OPTIONS");
  add_options(page, command);
  for (const CLI::App* part : parts) {
    page.subheading(name + " " + part->get_name());
    page.paragraph(sentence(part->get_description()));
    add_options(page, *part);
  }
  page.paragraph("The options of strata(1) may be given too.");
  add_exit_status(page);
  page.heading("SEE ALSO");
  page.line(".BR strata (1),");
  page.line(".BR strata.toml (5)");
  return {file + ".1", page.text()};
}

ManualPage overview_page(const CLI::App& app, const std::string& date) {
  RoffPage page("strata", '1', date);
  page.name("strata", kPurpose);
  page.heading("SYNOPSIS");
  page.line(RoffPage::bold("strata") + " [" + RoffPage::italic("OPTION") + "]... " + RoffPage::italic("COMMAND") +
            " [" + RoffPage::italic("ARGUMENT") + "]...");
  page.heading("DESCRIPTION");
  page.paragraph(app.get_description());
  page.paragraph("A TOML file describes a run. strata.toml(5) lists its keys.");
  page.heading("COMMANDS");
  for (const CLI::App* command : app.get_subcommands({})) {
    page.entry("\\fBstrata\\-" + RoffPage::escaped(command->get_name()) + "\\fR(1)",
               sentence(command->get_description()));
  }
  page.heading("OPTIONS");
  add_options(page, app);
  page.heading("ENVIRONMENT");
  page.entry(RoffPage::bold("STRATA_PLUGIN_PATH"),
             "Folders, separated by colons, that are searched for plugins before those of the installation.");
  add_exit_status(page);
  page.heading("EXAMPLES");
  page.example(kExample);
  page.heading("SEE ALSO");
  page.line(".BR strata.toml (5)");
  return {"strata.1", page.text()};
}

ManualPage configuration_page(const std::string& date) {
  RoffPage page("strata.toml", '5', date);
  page.name("strata.toml", "the configuration of a run of strata");
  page.heading("DESCRIPTION");
  page.paragraph(
      "One TOML file describes a run; it may have any name. An unknown key, a value of another type or a value out of "
      "range is an error that names file, line and column.");
  page.paragraph(
      "The option `--set KEY=VALUE` of a command sets a key too. The value is TOML; a bare word is a string. The "
      "tables "
      "of a list are counted from 0, and the number after the last one appends a table: `--set strategy.0.size=4`.");
  page.heading("SECTIONS");
  for (const SectionDeclaration& section : section_declarations()) {
    page.subheading(section.heading());
    page.paragraph(section.documentation);
    for (const OptionSpecification& option : section.schema.options()) {
      const std::string fallback =
          option.default_value ? "default " + strata::to_string(*option.default_value) : "required";
      page.entry(RoffPage::bold(option.name),
                 option.documentation + " Accepted: " + accepted_values(option) + "; " + fallback + ".");
    }
    for (const std::string& note : section.notes) page.paragraph(note);
    if (section.has_plugin()) page.paragraph("And the plugin's own options: `strata plugins show NAME` lists them.");
  }
  page.heading("FILES");
  page.entry("\\fI/usr/share/strata/configs\\fR", "Examples of configurations.");
  page.heading("SEE ALSO");
  page.line(".BR strata (1)");
  return {"strata.toml.5", page.text()};
}

}  // namespace

std::vector<ManualPage> manual_pages(const CLI::App& app, const std::string& date) {
  std::vector<ManualPage> pages = {overview_page(app, date), configuration_page(date)};
  for (const CLI::App* command : app.get_subcommands({})) pages.push_back(command_page(*command, date));
  return pages;
}

}  // namespace strata::host
