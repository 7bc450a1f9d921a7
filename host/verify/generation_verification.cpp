#include "verify/generation_verification.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "generate/text_scores.hpp"
#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"
#include "verify/stack_run.hpp"

namespace strata::host {
namespace {

/// Next tokens of each text, after its prompt.
constexpr std::int64_t kSteps = 3;

/// A text of random tokens.
class RandomText {
 public:
  RandomText(std::uint64_t number, std::int64_t vocabulary)
      : key_(random::stream_key(number, "verified text", 0)), vocabulary_(static_cast<std::uint64_t>(vocabulary)) {}

  void extend(GeneratedText& text, std::int64_t count) const {
    for (; count > 0; --count) {
      const auto index = static_cast<std::uint64_t>(text.tokens.size());
      text.tokens.push_back(static_cast<std::int32_t>(random::below(key_, index, vocabulary_)));
    }
  }

 private:
  std::uint64_t key_;
  std::uint64_t vocabulary_;
};

/// The scores of two texts of different lengths, as they grow.
double compare_scores(TextScores& cached, TextScores& whole, std::int64_t context) {
  const std::int64_t steps = std::min(kSteps, context);
  std::vector<RandomText> sources;
  std::vector<GeneratedText> texts(2);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    sources.emplace_back(i, whole.vocabulary());
    sources.back().extend(texts[i], i == 0 ? context - steps + 1 : 1);
  }
  double worst = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    cached.compute({&texts[0], &texts[1]});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      GeneratedText same{texts[i].tokens};
      whole.compute({&same});
      worst = std::max(worst, relative_difference(cached.scores(static_cast<std::int64_t>(i)), whole.scores(0)));
      sources[i].extend(texts[i], 1);
    }
  }
  return worst;
}

GenerationVerification compare_programs(const ScoresRequest& request, const DimSizes& sizes) {
  const auto whole = make_window_scores(request, sizes);
  const std::int64_t context = sizes.at(request.setup.generation().sequence);
  // A prompt takes several steps.
  const GenerationSizes generation{.texts = 2, .capacity = context, .chunk = std::max<std::int64_t>(1, context / 3)};
  std::optional<CachedPrograms> programs;
  try {
    programs = compile_cached(request.setup, sizes, request.device, generation);
  } catch (const ConfigurationError& error) {
    return {.missing = std::string("the model has no cache of keys and values: ") + error.what()};
  }
  const auto cached = make_cached_scores(request, *programs, generation);
  return {.difference = compare_scores(*cached, *whole, context)};
}

}  // namespace

GenerationVerification verify_generation(const RunSetup& setup) {
  const DimSizes sizes = setup.sizes_without_data();
  try {
    if (!sizes.contains(setup.generation().sequence)) return {.missing = "the length of texts has no size"};
  } catch (const ConfigurationError& error) {
    return {.missing = error.what()};
  }
  GenerationVerification result;
  const std::unique_ptr<World> world = setup.make_world();
  run_rank_threads(
      *world, [&](int rank) { return setup.make_device(rank, 1); },
      [&](Device& device, Communicator& communicator) {
        const auto restore = [&](Executor& executor) { initialize(executor, setup.seed()); };
        result = compare_programs({setup, restore, device, communicator}, sizes);
      });
  return result;
}

}  // namespace strata::host
