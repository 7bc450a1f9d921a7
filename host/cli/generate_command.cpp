#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "train/data/tokenizer.hpp"
#include "train/run/text_generation.hpp"

namespace strata::host {
namespace {

struct GenerateArguments {
  std::string checkpoint;
  std::string prompt;
  std::int64_t tokens = 200;
  SamplingSettings sampling;
  bool of_average = false;
  std::vector<std::string> overrides;
};

/// The first token if the user gives no prompt: a new line, or the vocabulary's first token if it has no new line.
std::vector<std::int32_t> default_prompt(const Tokenizer& tokenizer, const Vocabulary& vocabulary) {
  if (vocabulary.kind == Vocabulary::Kind::tokens) return {0};
  try {
    return tokenizer.encode("\n");
  } catch (const ConfigurationError&) {
    return {0};
  }
}

int generate_text(const GenerateArguments& arguments, CommandContext& context) {
  const CheckpointReader checkpoint(find_checkpoint(arguments.checkpoint));
  const RunSetup setup = prepare(generation_configuration(checkpoint, arguments.overrides), context.plugins());
  static_cast<void>(setup.generation());
  const std::optional<Vocabulary>& vocabulary = checkpoint.run().vocabulary;
  if (!vocabulary) {
    throw ConfigurationError("checkpoint '" + checkpoint.directory().string() +
                             "' was trained on data that is no text; accepted: one that was trained on text or tokens");
  }
  const auto tokenizer = make_tokenizer(*vocabulary);
  std::vector<std::int32_t> prompt = tokenizer->encode(arguments.prompt);
  if (prompt.empty()) prompt = default_prompt(*tokenizer, *vocabulary);
  context.out << arguments.prompt << std::flush;
  const RestoredWeights weights = arguments.of_average ? RestoredWeights::average : RestoredWeights::trained;
  generate(setup, checkpoint, {std::move(prompt), arguments.tokens, arguments.sampling, weights},
           [&](std::int32_t token) {
             context.out << tokenizer->decode({&token, 1}) << std::flush;
           });
  context.out << '\n';
  return 0;
}

}  // namespace

void add_generate_command(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Write text with a trained model, on one rank");
  command
      ->add_option("CHECKPOINT", arguments->checkpoint, "A checkpoint, or the output folder of a run for its last one")
      ->required();
  command->add_option("--prompt", arguments->prompt, "The text to continue; token numbers for a model of tokens");
  command->add_option("--tokens", arguments->tokens, "Number of tokens to generate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--temperature", arguments->sampling.temperature,
                   "Divisor of the logits: above 1 more varied, below 1 safer; 0 always takes the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--top-k", arguments->sampling.top_k, "Choose among the K likeliest tokens; 0 among all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--average", arguments->of_average,
                    "Use the moving average of the weights, which a run with [optimizer.average] keeps");
  command->add_option("--seed", arguments->sampling.seed, "Seed of the random choices")->capture_default_str();
  command
      ->add_option("--set", arguments->overrides,
                   "Overrides a key of the checkpoint's configuration, as in --set device.plugin=cpu")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback(
      [arguments, &context] { context.action = [arguments, &context] { return generate_text(*arguments, context); }; });
}

}  // namespace strata::host
