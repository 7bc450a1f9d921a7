#include "generate/text_scores.hpp"

#include <algorithm>
#include <optional>

#include "runtime/element.hpp"
#include "runtime/initialize.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Elements of a report in f32 or f64, from `first` on.
std::vector<double> read_numbers(Executor& executor, BufferId id, std::int64_t first, std::int64_t count) {
  const Buffer& buffer = executor.program().buffer(id);
  std::vector<std::byte> memory(static_cast<std::size_t>(count) * size_of(buffer.dtype));
  executor.read({id, first, count}, memory.data());
  return load_elements(buffer.dtype, memory);
}

/// Gives a step the tokens of all texts and their positions, and the source that they answer.
class StepInputs : public InputSource {
 public:
  StepInputs(Generation generation, std::int64_t texts, std::int64_t length)
      : generation_(std::move(generation)),
        length_(length),
        tokens_(static_cast<std::size_t>(texts * length)),
        positions_(tokens_.size()),
        sources_(static_cast<std::size_t>(texts)) {}

  [[nodiscard]] std::int64_t length() const { return length_; }

  /// Makes every text padding.
  void clear() {
    std::ranges::fill(tokens_, 0);
    std::ranges::fill(positions_, -1);
  }

  void set(std::int64_t text, std::int64_t at, std::int32_t token, std::int64_t position) {
    const auto index = static_cast<std::size_t>(text * length_ + at);
    tokens_[index] = token;
    positions_[index] = static_cast<std::int32_t>(position);
  }

  void set_source(std::int64_t text, const std::vector<std::int32_t>& tokens) {
    sources_[static_cast<std::size_t>(text)] = tokens;
  }

  void load(const InputPart& part, std::uint64_t /*step*/) override {
    const auto value = reader(part);
    auto* destination = reinterpret_cast<std::int32_t*>(part.destination);
    std::size_t count = 1;
    for (const IndexMap& dim : part.dims) count *= static_cast<std::size_t>(dim.local_size());
    for (std::size_t i = 0; i < count; ++i) destination[i] = value(i);
  }

 private:
  [[nodiscard]] std::function<std::int32_t(std::size_t)> reader(const InputPart& part) const {
    if (part.dtype == DType::i32) {
      if (part.name == generation_.input) return [this](std::size_t i) { return tokens_[i]; };
      if (part.name == kCachePositions) return [this](std::size_t i) { return positions_[i]; };
      if (part.name == generation_.positions) return [this](std::size_t i) { return std::max(positions_[i], 0); };
      if (part.name == generation_.documents) return [](std::size_t) { return 0; };
      if (part.name == generation_.mask) return [this](std::size_t i) { return positions_[i] < 0 ? 0 : 1; };
      // Both are [batch sequence].
      const auto length = static_cast<std::size_t>(part.dims.back().local_size());
      if (generation_.source && part.name == generation_.source->input) {
        return [this, length](std::size_t i) {
          return source_token(i / length, i % length).value_or(generation_.source->start);
        };
      }
      if (generation_.source && part.name == generation_.source->mask) {
        return [this, length](std::size_t i) { return source_token(i / length, i % length) ? 1 : 0; };
      }
    }
    throw ConfigurationError("the model reads the input '" + part.name + "' for its output '" + generation_.output +
                             "'; accepted: the inputs that its generation names");
  }

  /// The token of a text's source, or empty behind its end.
  [[nodiscard]] std::optional<std::int32_t> source_token(std::size_t text, std::size_t at) const {
    const std::vector<std::int32_t>& source = sources_[text];
    return at < source.size() ? std::optional(source[at]) : std::nullopt;
  }

  Generation generation_;
  std::int64_t length_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> positions_;
  /// The source of each text.
  std::vector<std::vector<std::int32_t>> sources_;
};

/// One program in its arena, with its inputs.
class Step {
 public:
  Step(const ScoresRequest& request, const Compiled& compiled, std::shared_ptr<Arena> arena, StepInputs inputs)
      : inputs(std::move(inputs)),
        executor(compiled.program(0), compiled.plan(0), 0, request.setup.seed(), request.device, request.communicator,
                 std::move(arena)) {}

  void run() { static_cast<void>(executor.run(step_++, 0, inputs)); }

  StepInputs inputs;
  Executor executor;

 private:
  std::uint64_t step_ = 0;
};

BufferId scores_of(const Program& program, const Generation& generation) {
  const BufferId id = program.reports.at(generation.output);
  const DType type = program.buffer(id).dtype;
  if (type == DType::f64 || type == DType::f32 || type == DType::bf16 || type == DType::f16) return id;
  throw RuntimeError("logits of type " + std::string(to_string(type)) + " cannot be sampled");
}

/// The parameter of this name, which the program has.
const StoredParameter& parameter_named(const Program& program, const std::string& name) {
  return *std::ranges::find(program.parameters, name, &StoredParameter::name);
}

/// Computes the source values of one text, which the other steps have as constants, and gives them to a place.
class SourceStep {
 public:
  SourceStep(const ScoresRequest& request, const Compiled& compiled)
      : step_(request, compiled, std::make_shared<Arena>(request.device, compiled.plan(0).arena_bytes),
              {request.setup.generation(), 1, 1}) {
    request.restore(step_.executor);
  }

  /// `next`: a program whose constants have the values of all places, one after the other.
  void read(const std::vector<std::int32_t>& source, std::int64_t place, Executor& next) {
    step_.inputs.set_source(0, source);
    step_.run();
    for (const auto& [name, id] : step_.executor.program().reports) {
      const Buffer& from = step_.executor.program().buffer(id);
      const BufferId constant = parameter_named(next.program(), name).value;
      const std::int64_t count = element_count(from.shape);
      const std::vector<std::byte> values =
          store_elements(next.program().buffer(constant).dtype, read_numbers(step_.executor, id, 0, count));
      next.write({constant, place * count, count}, values.data());
    }
  }

 private:
  Step step_;
};

class CachedScores final : public TextScores {
 public:
  CachedScores(const ScoresRequest& request, const CachedPrograms& programs, const GenerationSizes& sizes)
      : CachedScores(request, programs, sizes, std::make_shared<Arena>(request.device, programs.arena_bytes())) {}

  [[nodiscard]] std::int64_t texts() const override { return sizes_.texts; }
  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_; }

  void compute(const std::vector<GeneratedText*>& texts) override {
    for (GeneratedText* text : texts) {
      if (text == nullptr || text->size() - text->begin <= sizes_.capacity) continue;
      // The window slides, and every token in it gets another position.
      text->begin = text->size() - sizes_.capacity;
      text->cached = 0;
    }
    read_sources(texts);
    while (take(texts, prompt_, 1)) prompt_.run();
    take(texts, next_, 0);
    next_.run();
  }

  [[nodiscard]] std::vector<double> scores(std::int64_t place) override {
    return read_numbers(next_.executor, scores_, place * vocabulary_, vocabulary_);
  }

 private:
  CachedScores(const ScoresRequest& request, const CachedPrograms& programs, const GenerationSizes& sizes,
               const std::shared_ptr<Arena>& arena)
      : sizes_(sizes),
        next_(request, programs.next, arena, {request.setup.generation(), sizes.texts, 1}),
        prompt_(request, programs.prompt, arena, {request.setup.generation(), sizes.texts, sizes.chunk}),
        scores_(scores_of(programs.next.program(0), request.setup.generation())),
        vocabulary_(programs.next.program(0).buffer(scores_).shape.back()) {
    request.restore(next_.executor);
    if (programs.source) source_.emplace(request, *programs.source);
  }

  /// A text of which nothing is cached is new at its place.
  void read_sources(const std::vector<GeneratedText*>& texts) {
    for (std::size_t i = 0; i < texts.size() && source_; ++i) {
      if (texts[i] == nullptr || texts[i]->cached > 0) continue;
      const auto place = static_cast<std::int64_t>(i);
      source_->read(texts[i]->source, place, next_.executor);
      for (Step* step : {&next_, &prompt_}) step->inputs.set_source(place, texts[i]->source);
    }
  }

  /// Gives a step the pending tokens of all texts but the last `rest` of each. \return whether there are any.
  static bool take(const std::vector<GeneratedText*>& texts, Step& step, std::int64_t rest) {
    bool any = false;
    step.inputs.clear();
    for (std::size_t place = 0; place < texts.size(); ++place) {
      if (texts[place] == nullptr) continue;
      GeneratedText& text = *texts[place];
      const std::int64_t count = std::min(step.inputs.length(), text.pending() - rest);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t position = text.cached + i;
        step.inputs.set(static_cast<std::int64_t>(place), i,
                        text.tokens[static_cast<std::size_t>(text.begin + position)], position);
      }
      text.cached += std::max<std::int64_t>(count, 0);
      any = any || count > 0;
    }
    return any;
  }

  GenerationSizes sizes_;
  Step next_;
  Step prompt_;
  std::optional<SourceStep> source_;
  BufferId scores_;
  std::int64_t vocabulary_;
};

/// A causal model does not look ahead, so the rest of the window is arbitrary.
class WindowScores final : public TextScores {
 public:
  WindowScores(const ScoresRequest& request, Compiled compiled)
      : compiled_(std::move(compiled)),
        window_(compiled_.graph.sizes.at(request.setup.generation().sequence)),
        step_(request, compiled_, std::make_shared<Arena>(request.device, compiled_.plan(0).arena_bytes),
              {request.setup.generation(), 1, window_}),
        scores_(scores_of(compiled_.program(0), request.setup.generation())),
        vocabulary_(compiled_.program(0).buffer(scores_).shape.back()) {
    request.restore(step_.executor);
  }

  [[nodiscard]] std::int64_t texts() const override { return 1; }
  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_; }

  void compute(const std::vector<GeneratedText*>& texts) override {
    GeneratedText& text = *texts.front();
    text.begin = std::max<std::int64_t>(0, text.size() - window_);
    last_ = text.size() - text.begin - 1;
    for (std::int64_t i = 0; i < window_; ++i) {
      step_.inputs.set(0, i, i <= last_ ? text.tokens[static_cast<std::size_t>(text.begin + i)] : 0, i);
    }
    step_.inputs.set_source(0, text.source);
    step_.run();
  }

  [[nodiscard]] std::vector<double> scores(std::int64_t /*place*/) override {
    return read_numbers(step_.executor, scores_, last_ * vocabulary_, vocabulary_);
  }

 private:
  Compiled compiled_;
  std::int64_t window_;
  Step step_;
  BufferId scores_;
  std::int64_t vocabulary_;
  /// Position of the last token in the window.
  std::int64_t last_ = 0;
};

}  // namespace

CachedPrograms compile_cached(const RunSetup& setup, const DimSizes& sizes, const Device& device,
                              const GenerationSizes& generation) {
  CompileRequest request = setup.request(GraphMode::evaluation, sizes);
  request.outputs = {setup.generation().output};
  request.device = &device;
  request.global_batch = generation.texts;
  request.micro_batch = generation.texts;
  request.continuation = SequenceContinuation{setup.generation(), 1, generation.capacity, false};
  CachedPrograms programs;
  programs.next = setup.compile(request);
  request.continuation->positions = generation.chunk;
  request.continuation->fills_only = true;
  programs.prompt = setup.compile(request, &programs.next);
  if (!setup.generation().source) return programs;
  request.global_batch = 1;
  request.micro_batch = 1;
  request.continuation->reads_source = true;
  programs.source = setup.compile(request);
  return programs;
}

std::function<void(Executor& executor)> restored_from(const RunSetup& setup, const CheckpointReader& checkpoint,
                                                      RestoredWeights weights) {
  return [&checkpoint, seed = setup.seed(), weights](Executor& executor) {
    initialize_constants(executor, seed);
    checkpoint.restore(
        executor.program(), executor.rank(),
        [&](const BufferSlice& slice, const void* host) { executor.write(slice, host); },
        DifferingReplicas::last_agreed, weights);
  };
}

std::unique_ptr<TextScores> make_cached_scores(const ScoresRequest& request, const CachedPrograms& programs,
                                               const GenerationSizes& sizes) {
  return std::make_unique<CachedScores>(request, programs, sizes);
}

std::unique_ptr<TextScores> make_window_scores(const ScoresRequest& request, const DimSizes& sizes) {
  CompileRequest compile = request.setup.request(GraphMode::evaluation, sizes);
  compile.outputs = {request.setup.generation().output};
  compile.device = &request.device;
  compile.global_batch = 1;
  compile.micro_batch = 1;
  return std::make_unique<WindowScores>(request, request.setup.compile(compile));
}

}  // namespace strata::host
