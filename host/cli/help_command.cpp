#include "cli/commands.hpp"
#include "config/reference.hpp"

namespace strata::host {
namespace {

struct HelpArguments {
  std::string topic;
  bool markdown = false;
};

int print_help(const HelpArguments& arguments, const CLI::App& app, CommandContext& context) {
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
  const std::string near = nearest(arguments.topic, topics);
  std::string message = "there is no help on '" + arguments.topic + "'";
  if (!near.empty()) message += "; did you mean '" + near + "'?";
  message += "; accepted:";
  for (const std::string& topic : topics) message += " " + topic;
  throw ConfigurationError(message);
}

}  // namespace

void add_help_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand("help", "Explain the keys of the configuration, or a command");
  auto arguments = std::make_shared<HelpArguments>();
  command->add_option("TOPIC", arguments->topic, "configuration, or a command");
  command->add_flag("--markdown", arguments->markdown, "Print the page docs/configuration.md");
  command->callback([arguments, &app, &context] {
    context.action = [arguments, &app, &context] { return print_help(*arguments, app, context); };
  });
}

}  // namespace strata::host
