#include "generate/text_generation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "config/sections.hpp"
#include "generate/text_scores.hpp"
#include "loading/resolved_plugins.hpp"
#include "runtime/rank_threads.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"

namespace strata::host {
namespace {

/// Tokens of each text in one step over prompts. More need more memory, fewer more steps.
constexpr std::int64_t kPromptChunk = 128;

/// Texts at their beginning: prompts that are continued, or that are answered if the model reads a source.
std::vector<GeneratedText> first_texts(const std::vector<std::vector<std::int32_t>>& prompts,
                                       const std::optional<GenerationSource>& source) {
  std::vector<GeneratedText> texts;
  for (const auto& prompt : prompts) {
    GeneratedText& text = texts.emplace_back();
    text.tokens = source ? std::vector{source->start} : prompt;
    if (!source) continue;
    text.source = prompt;
    if (prompt.empty() || prompt.back() != source->end) text.source.push_back(source->end);
  }
  return texts;
}

void require_tokens_below(const std::filesystem::path& checkpoint, const std::vector<std::int32_t>& tokens,
                          std::int64_t vocab) {
  for (const std::int32_t token : tokens) {
    if (token < vocab) continue;
    throw ConfigurationError("checkpoint '" + checkpoint.string() + "': the prompt's token " + std::to_string(token) +
                             " is outside of the model's vocabulary of " + std::to_string(vocab) +
                             "; accepted: a prompt in its tokens, with the tokenizer that the model was trained with");
  }
}

/// Generates the texts of all prompts. The place of a complete text is free for the next prompt.
class Generator {
 public:
  Generator(TextScores& scores, std::vector<GeneratedText> texts, const Continuation& continuation,
            const GenerationEvents& events)
      : scores_(scores),
        texts_(std::move(texts)),
        continuation_(continuation),
        events_(events),
        places_(static_cast<std::size_t>(scores.texts())) {}

  void run() {
    while (fill_places()) {
      std::vector<GeneratedText*> texts;
      for (auto& place : places_) texts.push_back(place ? &place->text : nullptr);
      scores_.compute(texts);
      for (std::size_t i = 0; i < places_.size(); ++i) {
        if (places_[i]) extend(i);
      }
    }
  }

 private:
  struct Place {
    std::size_t prompt = 0;
    GeneratedText text = {};
    std::int64_t made = 0;
  };

  /// \return whether there is a text to extend.
  bool fill_places() {
    bool any = false;
    for (auto& place : places_) {
      while (!place && next_prompt_ < texts_.size()) {
        const std::size_t prompt = next_prompt_++;
        if (continuation_.tokens == 0) {
          events_.on_end(prompt);
          continue;
        }
        place = Place{.prompt = prompt};
        place->text = texts_[prompt];
      }
      any = any || place.has_value();
    }
    return any;
  }

  void extend(std::size_t index) {
    Place& place = *places_[index];
    const std::vector<double> logits = scores_.scores(static_cast<std::int64_t>(index));
    const std::int32_t token = choose_token(logits, continuation_.sampling, static_cast<std::uint64_t>(place.made++));
    place.text.tokens.push_back(token);
    const bool goes_on = events_.on_token(place.prompt, token);
    if (goes_on && place.made < continuation_.tokens) return;
    events_.on_end(place.prompt);
    places_[index].reset();
  }

  TextScores& scores_;
  std::vector<GeneratedText> texts_;
  const Continuation& continuation_;
  const GenerationEvents& events_;
  std::vector<std::optional<Place>> places_;
  std::size_t next_prompt_ = 0;
};

/// The scores with a cache, or those of whole contexts if the model cannot be continued. `programs` gets the programs
/// of the cache, and outlives the result.
std::unique_ptr<TextScores> make_scores(const ScoresRequest& request, const DimSizes& sizes,
                                        const GenerationSizes& generation, const GenerationEvents& events,
                                        std::optional<CachedPrograms>& programs) {
  std::string reason;
  try {
    programs = compile_cached(request.setup, sizes, request.device, generation);
  } catch (const ConfigurationError& error) {
    reason = error.what();
  }
  if (programs) return make_cached_scores(request, *programs, generation);
  // This throws if the configuration is wrong. Then the cache is not to blame.
  auto scores = make_window_scores(request, sizes);
  events.on_remark("the model has no cache of keys and values, so the whole context is computed for every token: " +
                   reason);
  return scores;
}

/// The sizes that these texts need.
GenerationSizes generation_sizes(const std::vector<GeneratedText>& texts, const Continuation& continuation,
                                 std::int64_t context) {
  std::int64_t longest_prompt = 1;
  for (const GeneratedText& text : texts) longest_prompt = std::max(longest_prompt, text.size());
  GenerationSizes sizes;
  sizes.texts = std::clamp<std::int64_t>(std::ssize(texts), 1, continuation.batch);
  // The last token that is generated is never computed.
  sizes.capacity = std::clamp<std::int64_t>(longest_prompt + continuation.tokens - 1, 1, context);
  const std::int64_t largest_pass = longest_prompt + continuation.tokens > context ? context : longest_prompt;
  sizes.chunk = std::clamp<std::int64_t>(largest_pass - 1, 1, std::min(kPromptChunk, context));
  return sizes;
}

/// The size of the dimension along which a text lies.
std::int64_t context_along(const Dim& sequence, const DimSizes& sizes) {
  const auto context = sizes.find(sequence);
  if (context != sizes.end()) return context->second;
  throw ConfigurationError("the model generates text along '" + sequence + "', which has no size");
}

/// True if a text becomes longer than the context.
bool exceeds(const std::vector<GeneratedText>& texts, std::int64_t tokens, std::int64_t context) {
  return std::ranges::any_of(texts, [&](const GeneratedText& text) { return text.size() + tokens - 1 > context; });
}

void require_sources_fit(const std::vector<GeneratedText>& texts, std::int64_t context) {
  for (const GeneratedText& text : texts) {
    if (std::ssize(text.source) <= context) continue;
    throw ConfigurationError("the prompt has " + std::to_string(text.source.size()) +
                             " tokens with the one that ends it; accepted: at most " + std::to_string(context) +
                             ", the encoder's context");
  }
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The tokens that may be chosen, with their probabilities but for a common factor.
class Candidates {
  [[nodiscard]] double logit(std::int32_t token) const { return logits_[static_cast<std::size_t>(token)]; }

  /// Likelier tokens first.
  [[nodiscard]] auto order() const {
    return [this](std::int32_t a, std::int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; };
  }

 public:
  Candidates(std::span<const double> logits, double temperature)
      : logits_(logits), temperature_(temperature), tokens_(logits.size()) {
    std::iota(tokens_.begin(), tokens_.end(), 0);
  }

  [[nodiscard]] std::int32_t likeliest() const { return *std::ranges::min_element(tokens_, order()); }

  void keep_likeliest(std::int64_t count) {
    if (count <= 0 || count >= std::ssize(tokens_)) return;
    std::nth_element(tokens_.begin(), tokens_.begin() + count - 1, tokens_.end(), order());
    tokens_.resize(static_cast<std::size_t>(count));
    std::ranges::sort(tokens_);
  }

  /// Keeps the fewest likeliest tokens that have this share of the probability.
  void keep_share(double share) {
    if (share >= 1) return;
    std::ranges::sort(tokens_, order());
    const std::vector<double> sums = cumulative();
    const auto enough = std::lower_bound(sums.begin(), sums.end() - 1, share * sums.back());
    tokens_.resize(static_cast<std::size_t>(enough - sums.begin()) + 1);
    std::ranges::sort(tokens_);
  }

  /// The token at a share of the probability, from 0 to below 1.
  [[nodiscard]] std::int32_t at(double share) const {
    const std::vector<double> sums = cumulative();
    const auto found = std::upper_bound(sums.begin(), sums.end() - 1, share * sums.back());
    return tokens_[static_cast<std::size_t>(found - sums.begin())];
  }

 private:
  [[nodiscard]] std::vector<double> cumulative() const {
    double largest = logit(tokens_.front());
    for (const std::int32_t token : tokens_) largest = std::max(largest, logit(token));
    std::vector<double> sums;
    sums.reserve(tokens_.size());
    double sum = 0;
    for (const std::int32_t token : tokens_) sums.push_back(sum += std::exp((logit(token) - largest) / temperature_));
    return sums;
  }

  std::span<const double> logits_;
  double temperature_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace

RunConfiguration one_rank_configuration(const CheckpointReader& checkpoint, const std::vector<std::string>& overrides,
                                        PluginRegistry& registry) {
  RunConfiguration trained = checkpoint.configuration();
  keep_model_strategies(trained, registry);
  // The user's own strategies and communicator follow.
  const OptionSpecification* plugin = section_declaration("communicator").schema.find("plugin");
  std::vector<std::string> all{"strategy=[]",
                               "communicator={plugin=\"" + std::get<std::string>(*plugin->default_value) + "\"}"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  RunConfiguration configuration = checkpoint.configuration(all);
  configuration.strategies.insert(configuration.strategies.begin(), trained.strategies.begin(),
                                  trained.strategies.end());
  return configuration;
}

void generate(const RunSetup& setup, const CheckpointReader& checkpoint, const Continuation& given,
              const GenerationEvents& events) {
  checkpoint.require(given.weights);
  const std::optional<DataState>& data = checkpoint.run().data;
  const DimSizes sizes = setup.sizes(data ? data->sizes : setup.known_data_sizes());
  if (setup.stack.mesh.rank_count() != 1) {
    throw ConfigurationError("text is generated on one rank, found " + std::to_string(setup.stack.mesh.rank_count()) +
                             "; accepted: strategies of one rank, such as precision");
  }
  const Generation form = setup.generation();
  const std::int64_t context = context_along(form.sequence, sizes);
  const std::vector<GeneratedText> texts = first_texts(given.prompts, form.source);
  Continuation continuation = given;
  if (form.source) {
    require_sources_fit(texts, context_along(form.source->sequence, sizes));
    // The decoder has no window that slides.
    continuation.tokens = std::min(given.tokens, context);
  } else if (exceeds(texts, given.tokens, context)) {
    events.on_remark("the model's context holds " + std::to_string(context) +
                     " tokens; beyond them, each new token is computed from the last " + std::to_string(context) +
                     " tokens anew, which is slower");
  }
  const GenerationSizes generation = generation_sizes(texts, continuation, context);
  const std::unique_ptr<World> world = setup.make_world();
  const auto body = [&](Device& device, Communicator& communicator) {
    const ScoresRequest request{setup, restored_from(setup, checkpoint, continuation.weights), device, communicator};
    std::optional<CachedPrograms> programs;
    const auto scores = continuation.cached ? make_scores(request, sizes, generation, events, programs)
                                            : make_window_scores(request, sizes);
    for (const auto& prompt : continuation.prompts) {
      require_tokens_below(checkpoint.directory(), prompt, scores->vocabulary());
    }
    Generator(*scores, texts, continuation, events).run();
  };
  run_rank_threads(
      *world, [&](int rank) { return setup.make_device(rank, 1); }, body);
}

std::int32_t choose_token(std::span<const double> logits, const SamplingSettings& settings, std::uint64_t index) {
  // A model may rule tokens out by -inf, but not all of them.
  const auto is_impossible = [](double logit) { return std::isnan(logit) || logit == kInfinity; };
  const bool has_impossible = std::ranges::any_of(logits, is_impossible);
  if (has_impossible || *std::ranges::max_element(logits) == -kInfinity) {
    throw RuntimeError("the model's logits are not finite; has its training diverged?");
  }
  Candidates candidates(logits, settings.temperature);
  if (settings.temperature == 0) return candidates.likeliest();
  candidates.keep_likeliest(settings.top_k);
  candidates.keep_share(settings.top_p);
  const auto words = random::philox4x32(random::stream_key(settings.seed, "generation", 0), index);
  return candidates.at((static_cast<double>(words[0]) + static_cast<double>(words[1]) * 0x1p-32) * 0x1p-32);
}

}  // namespace strata::host
