#include <cmath>
#include <cstdlib>
#include <string>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "huggingface/export_model.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

struct ExportArguments {
  std::string checkpoint;
  std::string folder;
  std::string dtype;
  std::string shard_size = "5GB";
  bool of_average = false;
  bool adapters = false;
};

/// Bytes of a size such as "5GB" or "500MB".
std::uint64_t parse_size(const std::string& text) {
  const char* begin = text.c_str();
  char* end = nullptr;
  const double number = std::strtod(begin, &end);
  const std::string unit = end;
  double factor = 0;
  if (unit == "KB") factor = 1e3;
  if (unit == "MB") factor = 1e6;
  if (unit == "GB") factor = 1e9;
  const double bytes = number * factor;
  if (end != begin && std::isfinite(bytes) && bytes >= 1 && bytes < 1e18) return static_cast<std::uint64_t>(bytes);
  throw ConfigurationError("--shard-size: found \"" + text + "\"; accepted: a size such as 5GB, 500MB or 100KB");
}

int export_checkpoint(const ExportArguments& arguments, CommandContext& context) {
  ExportSettings settings{.shard_bytes = parse_size(arguments.shard_size)};
  if (!arguments.dtype.empty()) settings.dtype = dtype_from_string(arguments.dtype);
  if (arguments.of_average) settings.weights = RestoredWeights::average;
  const CheckpointReader checkpoint(find_checkpoint(arguments.checkpoint));
  const ModelSummary summary = arguments.adapters
                                   ? export_adapters(checkpoint, context.plugins(), arguments.folder, settings.weights)
                                   : export_model(checkpoint, context.plugins(), arguments.folder, settings);
  context.out << (arguments.adapters ? "adapters " : "model ") << arguments.folder << '\n'
              << "parameters " << summary.parameters << " in " << summary.tensors << " tensors\n"
              << "bytes " << summary.bytes << " in " << summary.files << (summary.files == 1 ? " file\n" : " files\n");
  return 0;
}

}  // namespace

void add_export_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<ExportArguments>(
      app, context, "export", "Write the model of a checkpoint as Hugging Face's files", export_checkpoint);
  add_checkpoint(*command, arguments->checkpoint);
  command->add_option("HF_FOLDER", arguments->folder, "Folder of the files, which must not exist, or be empty")
      ->required();
  CLI::Option* dtype =
      command
          ->add_option(
              "--dtype", arguments->dtype,
              "Type of all tensors; by default each keeps that of the model from which training began, or else "
              "that of the checkpoint")
          ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  add_average(*command, arguments->of_average, "Write");
  command->add_option("--shard-size", arguments->shard_size, "Largest size of a file with several tensors")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      ->add_flag(
          "--adapters", arguments->adapters,
          "Write only the adapters that a run with lora trained, in f32, as PEFT reads them. Without it they are "
          "merged into the model.")
      ->excludes(dtype);
}

}  // namespace strata::host
