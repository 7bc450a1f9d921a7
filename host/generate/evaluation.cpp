#include "generate/evaluation.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>

#include "data/batch_reader.hpp"
#include "generate/text_generation.hpp"
#include "generate/text_scores.hpp"
#include "huggingface/model_parameters.hpp"
#include "runtime/executor.hpp"
#include "runtime/rank_threads.hpp"
#include "setup/joined_world.hpp"
#include "strata/error.hpp"
#include "train/step_metrics.hpp"

namespace strata::host {
namespace {

using EvaluationClock = std::chrono::steady_clock;

/// A text whose characters are other ones would give them other tokens.
void require_vocabulary(const CheckpointReader& checkpoint, const DataSource& source) {
  const std::optional<Vocabulary>& trained = checkpoint.run().vocabulary;
  if (!trained || !source.vocabulary() || *trained == *source.vocabulary()) return;
  throw ConfigurationError(source.description() +
                           ": its tokens stand for other texts than those of the checkpoint; accepted: "
                           "data of the tokenizer and the characters that the model was trained on");
}

/// The options of a role that take the path of one file. If their number is not `files`, those with a default are left
/// out.
std::vector<OptionSpecification> path_options(const OptionSchema& schema, OptionRole role, std::size_t files) {
  std::vector<OptionSpecification> options = schema.options();
  std::erase_if(options, [&](const auto& each) { return each.role != role || each.type != OptionType::word; });
  if (options.size() != files) std::erase_if(options, [](const auto& each) { return each.default_value.has_value(); });
  return options;
}

/// The files that a dataset reads, for messages: "a file for each of path, target_path".
std::string described_files(const OptionSchema& schema) {
  std::string names;
  for (const OptionSpecification& option : path_options(schema, OptionRole::training_data, 0)) {
    names += (names.empty() ? "" : ", ") + option.name;
  }
  return names.empty() ? "none that are named by a path" : "a file for each of " + names;
}

class Evaluation {
 public:
  Evaluation(const RunSetup& setup, const CheckpointReader& checkpoint, const DataSource& source,
             const EvaluationSettings& settings)
      : setup_(setup),
        checkpoint_(checkpoint),
        source_(source),
        settings_(settings),
        world_(setup.make_world()),
        compiled_(compile()),
        reader_(source, compiled_.graph.sizes, batch_needs(compiled_, world_->local_ranks(), source.inputs()),
                [this](std::uint64_t step, std::int64_t sample) { return key(step, sample); }),
        data_(reader_,
              {.ranks = static_cast<int>(world_->local_ranks().size()), .threads = setup.data_threads(*world_)}) {
    world_ = joined_world(std::move(world_), [&] {
      RankTerms terms = data_terms(source);
      terms.push_back(program_term("evaluation", compiled_));
      const RunState& run = checkpoint.run();
      terms.emplace_back("checkpoint", "step " + std::to_string(run.step) + " of run " + run.identity);
      return terms;
    });
  }

  EvaluationResult run() {
    run_rank_threads(
        *world_, [&](int rank) { return setup_.make_device(rank, *world_); },
        [&](Device& device, Communicator& communicator) { run_rank(device, communicator); });
    return result_;
  }

 private:
  Compiled compile() const {
    // This device only answers questions about kernels. Every rank makes its own on its own thread.
    const std::unique_ptr<Device> device = setup_.make_device(world_->local_ranks().front(), *world_);
    CompileRequest request = setup_.request(GraphMode::evaluation, setup_.sizes(source_.sizes()));
    request.device = device.get();
    return setup_.compile(request);
  }

  [[nodiscard]] std::int64_t batches() const {
    const std::int64_t batch = setup_.configuration.batch.global;
    const std::int64_t all = (source_.samples(settings_.split) + batch - 1) / batch;
    return settings_.batches > 0 ? std::min(settings_.batches, all) : all;
  }

  [[nodiscard]] std::optional<SampleKey> key(std::uint64_t step, std::int64_t sample) const {
    const std::int64_t index = static_cast<std::int64_t>(step) * setup_.configuration.batch.global + sample;
    if (index >= source_.samples(settings_.split)) return std::nullopt;
    return SampleKey{settings_.split, 0, setup_.seed(), index};
  }

  void run_rank(Device& device, Communicator& communicator) {
    const int rank = communicator.rank();
    const MemoryPlan& plan = compiled_.plan(rank);
    Executor executor(compiled_.program(rank), plan, rank, setup_.seed(), device, communicator,
                      std::make_shared<Arena>(device, plan.arena_bytes),
                      make_offload_memory(plan.offload, setup_.offload_directory(compiled_.program(rank))),
                      !compiled_.has_transfers());
    restored_from(setup_, checkpoint_, settings_.weights)(executor);
    const EvaluationClock::time_point begin = EvaluationClock::now();
    EvaluationResult sums;
    double count = 0;
    std::vector<double> metric_sums;
    for (; sums.batches < batches(); ++sums.batches) {
      const auto step = static_cast<std::uint64_t>(sums.batches);
      const ReadAhead::Outcome outcome = data_.wait(step);
      if (outcome.failure) throw RuntimeError("batch " + std::to_string(step) + ": " + *outcome.failure);
      const Reports reports = executor.run(step, 0, data_);
      data_.release(step);
      sums.loss += reports.at("loss");
      count += reports.at("count");
      add_metric_sums(read_metric_sums(executor), metric_sums);
    }
    if (rank != world_->local_ranks().front()) return;
    sums.first_rank = rank;
    sums.loss /= count;
    sums.count = static_cast<std::int64_t>(count);
    sums.metrics = describe_metrics(compiled_.metrics, metric_sums, count);
    sums.seconds = std::chrono::duration<double>(EvaluationClock::now() - begin).count();
    result_ = sums;
  }

  const RunSetup& setup_;
  const CheckpointReader& checkpoint_;
  const DataSource& source_;
  EvaluationSettings settings_;
  std::unique_ptr<World> world_;
  Compiled compiled_;
  BatchReader reader_;
  ReadAhead data_;
  /// The first rank of this process writes it.
  EvaluationResult result_;
};

}  // namespace

RunConfiguration evaluation_configuration(const CheckpointReader& checkpoint, const std::filesystem::path& file,
                                          bool keeps_stack, const std::vector<std::string>& overrides,
                                          PluginRegistry& registry) {
  if (!file.empty()) return load_configuration(file, overrides);
  if (!keeps_stack) return one_rank_configuration(checkpoint, overrides, registry);
  return checkpoint.configuration(overrides);
}

DataSplit read_only(RunConfiguration& configuration, const std::vector<std::string>& files,
                    const OptionSchema& schema) {
  PluginSection& dataset = configuration.data.dataset;
  auto& options = dataset.options;
  for (const OptionSpecification& option : schema.options()) {
    constexpr std::array kOfFiles = {OptionRole::training_data, OptionRole::validation_data,
                                     OptionRole::validation_share, OptionRole::data_weights};
    if (contains(kOfFiles, option.role)) options.erase(option.name);
  }
  const Place argument{.source = "argument DATA"};
  const auto set_value = [&](const OptionSpecification& option, OptionValue value) {
    options[option.name] = std::move(value);
    // Errors about the files name the argument, not the key that the checkpoint's run had.
    configuration.places.add(dataset.path + "." + option.name, argument, argument);
  };
  const auto set = [&](OptionRole role) {
    const std::vector<OptionSpecification> each = path_options(schema, role, files.size());
    if (each.size() == files.size()) {
      for (std::size_t i = 0; i < files.size(); ++i) set_value(each[i], files[i]);
      return true;
    }
    const OptionSpecification* list = schema.find(role, OptionType::words);
    if (list != nullptr) set_value(*list, files);
    return list != nullptr;
  };
  if (!set(OptionRole::training_data)) {
    throw ConfigurationError(argument.text() + ": found " + std::to_string(files.size()) + " file(s); the dataset '" +
                             dataset.plugin + "' reads " + described_files(schema));
  }
  if (set(OptionRole::validation_data)) return DataSplit::validation;
  const OptionSpecification* share = schema.find(OptionRole::validation_share, OptionType::number);
  if (share != nullptr) options[share->name] = 0.0;
  return DataSplit::training;
}

EvaluationResult evaluate(const RunSetup& setup, const CheckpointReader& checkpoint, const DataSource& source,
                          const EvaluationSettings& settings) {
  checkpoint.require(settings.weights);
  require_vocabulary(checkpoint, source);
  require_parameters_of(checkpoint, model_graph(setup, source.sizes()));
  if (source.samples(settings.split) == 0) {
    throw ConfigurationError(source.description() + ": there is no sample to evaluate");
  }
  return Evaluation(setup, checkpoint, source, settings).run();
}

}  // namespace strata::host
