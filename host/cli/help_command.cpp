#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "cli/manual_pages.hpp"
#include "config/sections.hpp"
#include "files/text_format.hpp"

namespace strata::host {
namespace {

struct HelpArguments {
  /// The whole command line.
  const CLI::App* app = nullptr;
  std::string topic;
  bool markdown = false;
  std::string manual;
  std::string date;
};

/// Writes every page of the manual as a file of `folder`.
int write_manual(const std::filesystem::path& folder, const std::string& date, const CLI::App& app) {
  std::error_code ignored;  // then the first file cannot be written
  std::filesystem::create_directories(folder, ignored);
  for (const ManualPage& page : manual_pages(app, date)) {
    std::ofstream file(folder / page.file, std::ios::binary);
    if (!(file << page.text).flush()) {
      throw RuntimeError("--manual: '" + (folder / page.file).string() + "' cannot be written");
    }
  }
  return 0;
}

int print_help(const HelpArguments& arguments, CommandContext& context) {
  const CLI::App& app = *arguments.app;
  if (!arguments.manual.empty()) return write_manual(arguments.manual, arguments.date, app);
  if (arguments.markdown && arguments.topic != "configuration") {
    throw ConfigurationError("--markdown: found the topic '" + arguments.topic + "'; accepted: configuration");
  }
  if (arguments.topic == "configuration") {
    context.out << (arguments.markdown ? reference_markdown() : reference_text());
    return 0;
  }
  if (arguments.topic.empty()) {
    context.out << app.help();
    return 0;
  }
  std::vector<std::string> topics = {"configuration"};
  for (const CLI::App* command : app.get_subcommands({})) {
    topics.push_back(command->get_name());
    if (command->get_name() != arguments.topic) continue;
    context.out << command->help("strata");
    return 0;
  }
  throw ConfigurationError(fmt::format("there is no help on '{}'{}; accepted: {}", arguments.topic,
                                       did_you_mean(arguments.topic, topics), fmt::join(topics, " ")));
}

}  // namespace

void add_help_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<HelpArguments>(
      app, context, "help", "Explain the keys of the configuration, or a command", print_help);
  arguments->app = &app;
  command->add_option("TOPIC", arguments->topic, "configuration, or a command");
  command->add_flag("--markdown", arguments->markdown, "Print the page docs/configuration.md");
  CLI::Option* manual = command->add_option("--manual", arguments->manual, "Write the manual pages into this folder");
  manual->type_name("FOLDER");
  command->add_option("--date", arguments->date, "Date of the manual pages")->type_name("YYYY-MM-DD")->needs(manual);
}

}  // namespace strata::host
