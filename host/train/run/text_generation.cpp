#include "train/run/text_generation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "config/sections.hpp"
#include "runtime/executor.hpp"
#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "strata/error.hpp"
#include "strata/random.hpp"
#include "train/checkpoint/checkpoint_names.hpp"

namespace strata::host {
namespace {

/// Serves the last tokens of a text, which is one document, from position 0 on. The rest of the window is arbitrary,
/// because a causal model does not look ahead.
class TokenWindow : public InputSource {
 public:
  TokenWindow(const Generation& generation, const std::vector<std::int32_t>& text, std::int64_t window)
      : generation_(generation), text_(text), window_(window) {}

  [[nodiscard]] std::int64_t size() const { return std::min(window_, std::ssize(text_)); }

  void load(const InputPart& part, std::uint64_t /*step*/) override {
    const bool tokens = part.name == generation_.input;
    const bool documents = part.name == generation_.documents;
    if (part.dtype != DType::i32 || (!tokens && !documents && part.name != generation_.positions)) {
      throw ConfigurationError("the model reads the input '" + part.name + "' for its output '" + generation_.output +
                               "'; accepted: the inputs that its generation names");
    }
    auto* destination = reinterpret_cast<std::int32_t*>(part.destination);
    const std::int64_t begin = std::ssize(text_) - size();
    for (const IndexSegment& run : part.dims.back().segments) {
      for (std::int64_t i = 0; i < run.length; ++i) {
        const std::int64_t position = run.global_begin + i;
        auto value = static_cast<std::int32_t>(documents ? 0 : position);
        if (tokens) value = position < size() ? text_[static_cast<std::size_t>(begin + position)] : 0;
        destination[run.local_begin + i] = value;
      }
    }
  }

 private:
  const Generation& generation_;
  const std::vector<std::int32_t>& text_;
  std::int64_t window_;
};

/// Row number `row` of the scores [batch seq vocab] that a pass has computed.
std::vector<double> logits_row(const Buffer& buffer, const std::vector<std::byte>& memory, std::int64_t row) {
  const std::int64_t vocab = buffer.shape.back();
  std::vector<double> logits(static_cast<std::size_t>(vocab));
  const auto copy = [&]<class T>(T /*type*/) {
    const auto* values = reinterpret_cast<const T*>(memory.data()) + row * vocab;
    std::copy_n(values, vocab, logits.begin());
  };
  if (buffer.dtype == DType::f64) {
    copy(double{});
  } else if (buffer.dtype == DType::f32) {
    copy(float{});
  } else {
    throw RuntimeError("logits of type " + std::string(to_string(buffer.dtype)) + " cannot be sampled");
  }
  return logits;
}

void require_tokens_below(const std::vector<std::int32_t>& tokens, std::int64_t vocab) {
  for (const std::int32_t token : tokens) {
    if (token < vocab) continue;
    throw ConfigurationError("the prompt's token " + std::to_string(token) +
                             " is outside of the model's vocabulary of " + std::to_string(vocab));
  }
}

}  // namespace

std::int32_t choose_token(std::span<const double> logits, const SamplingSettings& settings, std::uint64_t index) {
  std::vector<std::int32_t> candidates(logits.size());
  std::iota(candidates.begin(), candidates.end(), 0);
  const auto logit = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  if (settings.temperature == 0) return *std::min_element(candidates.begin(), candidates.end(), likelier);
  if (settings.top_k > 0 && settings.top_k < std::ssize(candidates)) {
    std::nth_element(candidates.begin(), candidates.begin() + settings.top_k - 1, candidates.end(), likelier);
    candidates.resize(static_cast<std::size_t>(settings.top_k));
    std::sort(candidates.begin(), candidates.end());
  }
  double largest = logit(candidates.front());
  for (const std::int32_t token : candidates) largest = std::max(largest, logit(token));
  std::vector<double> cumulative;
  cumulative.reserve(candidates.size());
  double sum = 0;
  for (const std::int32_t token : candidates) {
    cumulative.push_back(sum += std::exp((logit(token) - largest) / settings.temperature));
  }
  const auto words = random::philox4x32(random::stream_key(settings.seed, "generation", 0), index);
  const double share = (static_cast<double>(words[0]) + static_cast<double>(words[1]) * 0x1p-32) * 0x1p-32;
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end() - 1, share * sum);
  return candidates[static_cast<std::size_t>(found - cumulative.begin())];
}

RunConfiguration generation_configuration(const CheckpointReader& checkpoint,
                                          const std::vector<std::string>& overrides) {
  const std::string source = (checkpoint.directory() / kManifestName).string();
  RunConfiguration configuration = parse_configuration(checkpoint.run().configuration, source, overrides);
  configuration.strategies.clear();
  configuration.batch = {1, 1};
  // One rank does not need the communicator of the training run.
  const OptionSpecification* plugin = section_declaration("communicator").schema.find("plugin");
  configuration.communicator.plugin = std::get<std::string>(*plugin->default_value);
  configuration.communicator.options.clear();
  return configuration;
}

void generate(const RunSetup& setup, const CheckpointReader& checkpoint, Continuation continuation,
              const std::function<void(std::int32_t token)>& on_token) {
  if (continuation.weights == RestoredWeights::average && !checkpoint.has_average()) {
    throw ConfigurationError("checkpoint '" + checkpoint.directory().string() +
                             "' has no moving average of the weights; accepted: one of a run with [optimizer.average]");
  }
  std::vector<std::int32_t>& text = continuation.prompt;
  const Generation generation = setup.generation();
  const std::optional<DataState>& data = checkpoint.run().data;
  const DimSizes sizes = setup.sizes(data ? data->sizes : DimSizes{});
  const std::unique_ptr<World> world = setup.make_world();
  const auto body = [&](Device& device, Communicator& communicator) {
    CompileRequest request = setup.request(GraphMode::evaluation, sizes);
    request.outputs = {generation.output};
    request.device = &device;
    const Compiled compiled = setup.compile(request);
    const Program& program = compiled.program(0);
    const BufferId output = program.reports.at(generation.output);
    require_tokens_below(text, program.buffer(output).shape.back());
    const auto arena = std::make_shared<Arena>(device, compiled.plan(0).arena_bytes);
    Executor executor(program, compiled.plan(0), 0, setup.seed(), device, communicator, arena);
    initialize_constants(executor, setup.seed());
    checkpoint.restore(
        program, 0, [&](const BufferSlice& slice, const void* host) { executor.write(slice, host); },
        DifferingReplicas::last_agreed, continuation.weights);

    TokenWindow window(generation, text, compiled.graph.sizes.at(generation.sequence));
    std::vector<std::byte> memory(static_cast<std::size_t>(program.buffer(output).bytes()));
    for (std::int64_t made = 0; made < continuation.tokens; ++made) {
      (void)executor.run(static_cast<std::uint64_t>(made), 0, window);
      executor.read(output, memory.data());
      const std::vector<double> logits = logits_row(program.buffer(output), memory, window.size() - 1);
      text.push_back(choose_token(logits, continuation.sampling, static_cast<std::uint64_t>(made)));
      on_token(text.back());
    }
  };
  run_rank_threads(
      *world, [&](int rank) { return setup.make_device(rank, 1); }, body);
}

}  // namespace strata::host
