#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "files/json.hpp"
#include "generate/text_generation.hpp"
#include "generate/text_stream.hpp"
#include "huggingface/initial_values.hpp"
#include "huggingface/model_parameters.hpp"
#include "strata/error.hpp"
#include "tokenizers/checkpoint_tokenizer.hpp"

namespace strata::host {
namespace {

struct GenerateArguments {
  std::string checkpoint;
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::vector<std::string> stops;
  std::string tokenizer;
  std::int64_t tokens = 200;
  std::int64_t batch = 8;
  SamplingSettings sampling;
  bool of_average = false;
  bool uncached = false;
  bool ignores_end = false;
  bool shows_special = false;
  SpecialInText special = SpecialInText::token;
  bool json = false;
  std::vector<std::string> overrides;
};

/// The lines of a file that are not empty.
std::vector<std::string> read_prompts(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw ConfigurationError("--prompts: '" + file + "' cannot be read; accepted: a text file");
  std::vector<std::string> prompts;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) prompts.push_back(line);
  }
  if (prompts.empty()) throw ConfigurationError("--prompts: '" + file + "' has no prompt; accepted: one a line");
  return prompts;
}

std::vector<std::string> prompts_of(const GenerateArguments& arguments) {
  std::vector<std::string> prompts = arguments.prompts;
  if (!arguments.prompt_file.empty()) {
    const std::vector<std::string> more = read_prompts(arguments.prompt_file);
    prompts.insert(prompts.end(), more.begin(), more.end());
  }
  if (prompts.empty()) prompts.emplace_back();
  return prompts;
}

/// Prints texts in the order of their prompts. The first text that is not complete is printed as it grows.
class TextPrinter {
 public:
  /// `tokens`: those before each text, none if texts answer their prompts. `ends`: tokens that end a text.
  TextPrinter(const Tokenizer& tokenizer, const GenerateArguments& arguments, const std::vector<std::string>& prompts,
              const std::vector<std::vector<std::int32_t>>& tokens, std::set<std::int32_t> ends, std::ostream& out)
      : tokenizer_(tokenizer),
        all_tokens_(tokenizer),
        shows_prompt_(!tokens.empty()),
        shows_special_(arguments.shows_special),
        json_(arguments.json),
        ends_(std::move(ends)),
        out_(out) {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      texts_.push_back({prompts[i], TextStream(all_tokens_, shows_prompt_ ? tokens[i] : std::vector<std::int32_t>()),
                        StopStrings(arguments.stops)});
    }
  }

  /// \return false if the token or a stop string has ended the text.
  bool add(std::size_t prompt, std::int32_t token) {
    Text& text = texts_[prompt];
    ++text.tokens;
    text.has_ended = ends_.contains(token);
    const std::string piece = text.stream.add(token);
    const std::string special = shows_special_ ? "" : special_text(tokenizer_, token);
    write(prompt, text.stops.add(piece, piece.ends_with(special) ? special.size() : 0));
    return !text.is_stopped();
  }

  void end(std::size_t prompt) {
    Text& text = texts_[prompt];
    if (!text.is_stopped()) write(prompt, text.stops.add(text.stream.finish()));
    write(prompt, text.stops.rest());
    text.is_complete = true;
    while (current_ < texts_.size() && texts_[current_].is_complete) {
      finish(texts_[current_++]);
      begin();
    }
  }

 private:
  struct Text {
    std::string prompt;
    TextStream stream;
    StopStrings stops;
    /// What follows the prompt.
    std::string added = {};
    std::int64_t tokens = 0;
    /// A token that ends texts was chosen.
    bool has_ended = false;
    bool is_complete = false;

    [[nodiscard]] bool is_stopped() const { return has_ended || stops.has_ended(); }
  };

  void write(std::size_t prompt, const std::string& piece) {
    texts_[prompt].added += piece;
    if (prompt != current_ || json_) return;
    // The first prompt is not printed before its first token, since until then it may be refused.
    if (!is_begun_) return begin();
    if (!piece.empty()) out_ << piece << std::flush;
  }

  /// Prints what the current text has so far.
  void begin() {
    if (current_ == texts_.size() || json_) return;
    out_ << (shows_prompt_ ? texts_[current_].prompt : "") << texts_[current_].added << std::flush;
    is_begun_ = true;
  }

  void finish(const Text& text) {
    if (!json_) {
      out_ << '\n' << std::flush;
      return;
    }
    const nlohmann::ordered_json line{
        {"prompt", text.prompt}, {"text", text.added}, {"tokens", text.tokens}, {"stopped", text.is_stopped()}};
    out_ << json_text(line) << std::endl;
  }

  const Tokenizer& tokenizer_;
  WithSpecialTokens all_tokens_;
  bool shows_prompt_;
  bool shows_special_;
  bool json_;
  std::set<std::int32_t> ends_;
  std::ostream& out_;
  std::vector<Text> texts_;
  /// The first text that is not complete.
  std::size_t current_ = 0;
  bool is_begun_ = false;
};

int generate_text(const GenerateArguments& arguments, CommandContext& context) {
  const CheckpointReader checkpoint(find_checkpoint(arguments.checkpoint));
  RunConfiguration configuration = one_rank_configuration(checkpoint, arguments.overrides, context.plugins());
  configuration.batch = {1, 1};
  const RunSetup setup = prepare_run(std::move(configuration), context.plugins());
  const Generation form = setup.generation();
  const auto& data = checkpoint.run().data;
  require_parameters_of(checkpoint, model_graph(setup, data ? data->sizes : DimSizes{}));
  const auto tokenizer = checkpoint_tokenizer(checkpoint.directory(), arguments.tokenizer, checkpoint.run().vocabulary);
  const std::vector<std::string> prompts = prompts_of(arguments);
  Continuation continuation{.prompts = {},
                            .tokens = arguments.tokens,
                            .sampling = arguments.sampling,
                            .weights = arguments.of_average ? RestoredWeights::average : RestoredWeights::trained,
                            .batch = arguments.batch,
                            .cached = !arguments.uncached};
  for (const std::string& prompt : prompts)
    continuation.prompts.push_back(prompt_tokens(*tokenizer, prompt, arguments.special));
  std::set<std::int32_t> ends;
  if (!arguments.ignores_end) ends = end_tokens(checkpoint.directory(), *tokenizer);
  if (!arguments.ignores_end && form.source) ends.insert(form.source->end);
  // Programs read the text as it is; a terminal must not obey it.
  if (::isatty(STDOUT_FILENO) == 0) context.out.leave_as_it_is();
  const auto before = form.source ? decltype(continuation.prompts)() : continuation.prompts;
  TextPrinter printer(*tokenizer, arguments, prompts, before, std::move(ends), context.out);
  generate(setup, checkpoint, continuation,
           {.on_token = [&](std::size_t prompt, std::int32_t token) { return printer.add(prompt, token); },
            .on_end = [&](std::size_t prompt) { printer.end(prompt); },
            .on_remark = [&](const std::string& text) { context.log.info(text); }});
  return 0;
}

void add_sampling_options(CLI::App* command, SamplingSettings& sampling) {
  command
      ->add_option("--temperature", sampling.temperature,
                   "Divisor of the logits: above 1 more varied, below 1 safer; 0 always takes the likeliest token")
      ->check(number_from(0))
      ->capture_default_str();
  command->add_option("--top-k", sampling.top_k, "Choose among the K likeliest tokens; 0 among all")
      ->check(number_from(0))
      ->capture_default_str();
  command
      ->add_option("--top-p", sampling.top_p,
                   "Choose among the fewest likeliest tokens whose probabilities sum to P; 1 among all")
      ->check(number_between(0, 1))
      ->capture_default_str();
  command->add_option("--seed", sampling.seed, "Seed of the random choices")
      ->check(number_from(0))
      ->capture_default_str();
}

}  // namespace

void add_generate_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<GenerateArguments>(
      app, context, "generate", "Write text with a trained model, on one rank", generate_text);
  add_checkpoint(*command, arguments->checkpoint);
  command->add_option("--tokenizer", arguments->tokenizer,
                      "The tokenizer of the text: a tokenizer.json, a model of sentencepiece, or a folder with one of "
                      "them; without it, the checkpoint's own");
  command
      ->add_option("--prompt", arguments->prompts,
                   "The text to continue, or to answer by a model with an encoder; token numbers for a model of tokens "
                   "without a "
                   "tokenizer; repeat it for several texts")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_option("--prompts", arguments->prompt_file, "A file with one prompt a line")->type_name("FILE");
  command->add_option("--tokens", arguments->tokens, "Number of tokens to generate for each prompt")
      ->check(number_from(0))
      ->capture_default_str();
  command->add_flag("--ignore-eos", arguments->ignores_end,
                    "Go on after a token that ends texts: one of eos_token_id in the model's config.json or "
                    "generation_config.json, or the tokenizer's");
  command->add_flag("--special", arguments->shows_special, "Print special tokens too");
  command->add_flag_callback(
      "--special-as-text", [arguments = arguments] { arguments->special = SpecialInText::text; },
      "Read the text of a special token within a prompt, such as <|endoftext|>, as plain text");
  command
      ->add_option("--stop", arguments->stops,
                   "End a text before this string, which may contain special tokens; repeat it for several strings")
      ->type_name("TEXT")
      ->check(
          [](const std::string& text) { return text.empty() ? std::string("accepted: at least one character") : ""; })
      ->allow_extra_args(false);
  add_sampling_options(command, arguments->sampling);
  command->add_option("--batch", arguments->batch, "Most texts that are computed together")
      ->check(number_from(1))
      ->capture_default_str();
  command->add_flag("--no-cache", arguments->uncached,
                    "Compute the whole context for every token, without a cache of keys and values");
  add_average(*command, arguments->of_average, "Use");
  command->add_flag("--json", arguments->json, "Print one JSON object a line for each text");
  add_overrides(*command, arguments->overrides,
                "Overrides a key of the checkpoint's configuration, as in --set device.plugin=cpu");
}

}  // namespace strata::host
