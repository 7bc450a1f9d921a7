#include <fmt/format.h>

#include <string>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/file_io.hpp"
#include "foreign/import_configuration.hpp"

namespace strata::host {
namespace {

struct ImportConfigArguments {
  std::string file;
  std::string output;
  ImportRequest request;
};

int import_config(const ImportConfigArguments& arguments, CommandContext& context) {
  const ImportedConfiguration imported =
      import_configuration(read_text(arguments.file), arguments.file, arguments.request);
  const std::string text = imported.to_toml();
  // A file that no run could read is not written.
  static_cast<void>(parse_configuration(text, arguments.output.empty() ? "the configuration" : arguments.output));
  if (arguments.output.empty()) {
    context.out << text;
    return 0;
  }
  write_named_file(arguments.output, text);
  context.out << fmt::format("{}: {} of {}, with {} remarks\n", arguments.output, imported.configuration.model.plugin,
                             imported.format, imported.remarks.size());
  return 0;
}

}  // namespace

void add_import_config_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<ImportConfigArguments>(
      app, context, "import-config",
      "Make a configuration of a file of DeepSpeed, Accelerate, Axolotl, torchtitan or Megatron-LM", import_config);
  command
      ->add_option(
          "FILE", arguments->file,
          "DeepSpeed's JSON, Accelerate's or Axolotl's YAML, torchtitan's TOML, or a shell script or a file with "
          "Megatron-LM's arguments")
      ->required();
  command->add_option("OUT", arguments->output, "The configuration; default: standard output")->type_name("FILE");
  command->add_option("--from", arguments->request.format, "The program whose file it is. Default: its content says it")
      ->check(CLI::IsMember(foreign_formats()));
  command
      ->add_option("--ranks", arguments->request.ranks,
                   "Number of devices. Default: as the file says, or the least that its degrees of parallelism need")
      ->type_name("N")
      ->check(number_between(1, 1 << 20));
}

}  // namespace strata::host
