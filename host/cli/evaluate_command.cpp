#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/json.hpp"
#include "generate/evaluation.hpp"
#include "huggingface/initial_values.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

struct EvaluateArguments {
  std::string checkpoint;
  std::vector<std::string> files;
  std::string configuration;
  bool keeps_stack = false;
  std::int64_t batches = -1;
  bool of_average = false;
  bool json = false;
  std::vector<std::string> overrides;
};

void print_result(const EvaluationResult& result, const std::string& unit, std::ostream& out) {
  out << fmt::format("loss {:.7g}  perplexity {:.7g}{}  {} {}s  {:.3g} s\n", result.loss, std::exp(result.loss),
                     metrics_text(result.metrics), result.count, unit, result.seconds);
}

int evaluate_checkpoint(const EvaluateArguments& arguments, CommandContext& context) {
  const CheckpointReader checkpoint(find_checkpoint(arguments.checkpoint));
  RunConfiguration configuration = evaluation_configuration(checkpoint, arguments.configuration, arguments.keeps_stack,
                                                            arguments.overrides, context.plugins());
  const bool own_data = arguments.files.empty();
  DataSplit split = DataSplit::validation;
  if (!own_data) {
    const std::string& dataset = configuration.data.dataset.plugin;
    split = read_only(configuration, arguments.files, context.plugins().load<DatasetFactory>(dataset).options());
  }
  // The data must have a validation split only if it is the one to read.
  configuration.run.eval_every = split == DataSplit::validation ? 1 : 0;
  const RunSetup setup = prepare_run(std::move(configuration), context.plugins());
  EvaluationSettings settings{.split = split,
                              .batches = own_data ? setup.configuration.run.eval_batches : 0,
                              .weights = arguments.of_average ? RestoredWeights::average : RestoredWeights::trained};
  if (arguments.batches >= 0) settings.batches = arguments.batches;
  const EvaluationResult result = evaluate(setup, checkpoint, setup.open_data(), settings);
  if (result.count == 0) {
    throw RuntimeError(
        fmt::format("the loss counts no {} of the {} batch(es), so there is no mean", setup.unit, result.batches));
  }
  // One process of several reports.
  if (result.first_rank != 0) return 0;
  if (arguments.json) {
    nlohmann::ordered_json found{{"loss", result.loss},       {"perplexity", std::exp(result.loss)},
                                 {"unit", setup.unit},        {"count", result.count},
                                 {"batches", result.batches}, {"seconds", result.seconds}};
    for (const Metric& each : result.metrics) found["metrics"][each.name] = each.value;
    write_json(context.out, found);
  } else {
    print_result(result, setup.unit, context.out);
  }
  return 0;
}

}  // namespace

void add_evaluate_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<EvaluateArguments>(
      app, context, "evaluate", "Print the loss and the perplexity of a checkpoint on data", evaluate_checkpoint);
  add_checkpoint(*command, arguments->checkpoint);
  command->add_option(
      "DATA", arguments->files,
      "Files in the format of the run's data; default: the run's validation split, in as many batches as "
      "training evaluates");
  command
      ->add_option("--config", arguments->configuration,
                   "A run's TOML file to use instead of the checkpoint's configuration, with its strategies and data")
      ->type_name("FILE");
  command->add_flag("--stack", arguments->keeps_stack,
                    "Keep the strategies and the communicator of the checkpoint's run; default: one rank without any");
  command->add_option("--batches", arguments->batches, "Most batches to evaluate; 0 for all of the data")
      ->check(number_from(0));
  add_average(*command, arguments->of_average, "Use");
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  add_overrides(*command, arguments->overrides,
                "Overrides a key of the configuration, as in --set batch.micro=4; strategies too");
}

}  // namespace strata::host
