#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "data/data_source.hpp"
#include "log/training_record.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// Which samples an evaluation reads, with which parameters.
struct EvaluationSettings {
  DataSplit split = DataSplit::validation;
  /// Number of batches, from the first sample on. 0: all of the split.
  std::int64_t batches = 0;
  RestoredWeights weights = RestoredWeights::trained;
};

struct EvaluationResult {
  /// The mean over all elements that the loss counts, such as tokens.
  double loss = 0;
  std::int64_t count = 0;
  std::vector<Metric> metrics = {};
  std::int64_t batches = 0;
  /// Time of the passes, without compiling and restoring.
  double seconds = 0;
  /// The first rank of this process. Every process has the result.
  int first_rank = 0;
};

/// The configuration that a checkpoint is evaluated with. `file`: a configuration to use instead of the checkpoint's;
/// may be empty. `keeps_stack`: keeps the checkpoint's strategies; if not, and without a file, one rank evaluates, with
/// those strategies that change the model.
[[nodiscard]] RunConfiguration evaluation_configuration(const CheckpointReader& checkpoint,
                                                        const std::filesystem::path& file, bool keeps_stack,
                                                        const std::vector<std::string>& overrides,
                                                        PluginRegistry& registry);

/// Makes `files`, which the argument DATA of the command line names, the only files of the run's data. `schema`: the
/// options of its dataset. \return the split that has them. A dataset with an option for validation files gives them as
/// validation, in order and without augmentation. Another one gives them as training. \throws ConfigurationError if the
/// dataset cannot read so many files.
[[nodiscard]] DataSplit read_only(RunConfiguration& configuration, const std::vector<std::string>& files,
                                  const OptionSchema& schema);

/// The loss of a checkpoint's parameters on data, under the strategies of `setup`. The batches are those of an
/// evaluation during training. \throws ConfigurationError if the data or the average is missing, or if the data has
/// another vocabulary than the checkpoint.
[[nodiscard]] EvaluationResult evaluate(const RunSetup& setup, const CheckpointReader& checkpoint,
                                        const DataSource& source, const EvaluationSettings& settings);

}  // namespace strata::host
