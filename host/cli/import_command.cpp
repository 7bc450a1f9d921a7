#include <string>
#include <vector>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "huggingface/import_model.hpp"

namespace strata::host {
namespace {

struct ImportArguments {
  std::string folder;
  std::string out;
  std::string adapters;
  std::vector<std::string> libraries;
};

int import_folder(const ImportArguments& arguments, CommandContext& context) {
  std::vector<PluginSection> libraries;
  for (const std::string& name : arguments.libraries)
    libraries.push_back({.path = "--library", .plugin = name, .options = {}});
  const auto base = HuggingFaceCheckpoint::open(arguments.folder, context.plugins(), libraries);
  const auto adapted =
      arguments.adapters.empty() ? nullptr : read_adapters(*base, arguments.adapters, context.plugins());
  const ModelSummary summary = import_model(adapted ? *adapted : *base, arguments.out);
  context.out << "checkpoint " << arguments.out << '\n'
              << "parameters " << summary.parameters << " in " << summary.tensors << " tensors\n"
              << "bytes " << summary.bytes << '\n';
  return 0;
}

}  // namespace

void add_import_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<ImportArguments>(
      app, context, "import", "Make a checkpoint of a model of Hugging Face", import_folder);
  command
      ->add_option("HF_FOLDER", arguments->folder,
                   "A folder with config.json and model.safetensors, or its shards and their index")
      ->required();
  command->add_option("OUT", arguments->out, "Folder of the checkpoint, which must not exist, or be empty")->required();
  command
      ->add_option("--adapters", arguments->adapters,
                   "A folder of PEFT with LoRA adapters of the model, which become a part of the checkpoint")
      ->type_name("DIR");
  command->add_option("--library", arguments->libraries, "Library plugin that brings ops of the model; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

}  // namespace strata::host
