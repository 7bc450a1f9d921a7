#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "train/data/text_format.hpp"
#include "train/published/import_model.hpp"

namespace strata::host {
namespace {

struct ImportArguments {
  std::string folder;
  std::string out;
};

int import_folder(const ImportArguments& arguments, CommandContext& context) {
  const auto model = PublishedCheckpoint::open(arguments.folder, context.plugins());
  const ModelSummary summary = import_model(*model, arguments.out);
  context.out << "checkpoint " << arguments.out << '\n'
              << "parameters " << summary.parameters << " in " << summary.tensors << " tensors\n"
              << "bytes " << summary.bytes << '\n';
  return 0;
}

}  // namespace

void add_import_command(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand("import", "Make a checkpoint of a model of Hugging Face");
  command
      ->add_option("HF_FOLDER", arguments->folder,
                   "A folder with config.json and model.safetensors, or its shards and their index")
      ->required();
  command->add_option("OUT", arguments->out, "Folder of the checkpoint, which must not exist")->required();
  command->callback(
      [arguments, &context] { context.action = [arguments, &context] { return import_folder(*arguments, context); }; });
}

}  // namespace strata::host
