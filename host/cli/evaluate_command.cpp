#include <cmath>
#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/json_output.hpp"
#include "cli/number_check.hpp"
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
  std::ostringstream line;
  line << std::setprecision(7) << "loss " << result.loss << "  perplexity " << std::exp(result.loss) << "  "
       << result.count << ' ' << unit << "s  " << std::setprecision(3) << result.seconds << " s";
  out << line.str() << '\n';
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
    throw RuntimeError("the loss counts no " + setup.unit + " of the " + std::to_string(result.batches) +
                       " batch(es), so there is no mean");
  }
  // One process of several reports.
  if (result.first_rank != 0) return 0;
  if (arguments.json) {
    write_json(context.out, {{"loss", result.loss},
                             {"perplexity", std::exp(result.loss)},
                             {"unit", setup.unit},
                             {"count", result.count},
                             {"batches", result.batches},
                             {"seconds", result.seconds}});
  } else {
    print_result(result, setup.unit, context.out);
  }
  return 0;
}

}  // namespace

void add_evaluate_command(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = app.add_subcommand("evaluate", "Print the loss and the perplexity of a checkpoint on data");
  command
      ->add_option("CHECKPOINT", arguments->checkpoint, "A checkpoint, or the output folder of a run for its last one")
      ->required();
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
  command->add_flag("--average", arguments->of_average,
                    "Use the moving average of the weights, which a run with [optimizer.average] keeps");
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command
      ->add_option("--set", arguments->overrides,
                   "Overrides a key of the configuration, as in --set batch.micro=4; strategies too")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback([arguments, &context] {
    context.action = [arguments, &context] { return evaluate_checkpoint(*arguments, context); };
  });
}

}  // namespace strata::host
