#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/run_configuration.hpp"
#include "foreign/foreign_settings.hpp"

namespace strata::host {

using OptionValues = std::map<std::string, OptionValue>;

/// Defaults of PyTorch's Adam, which most programs have.
inline const std::vector<double> kTorchBetas = {0.9, 0.999};
inline constexpr double kTorchEpsilon = 1e-8;

/// How another program spreads a model and a batch over devices, in its own numbers.
struct ForeignLayout {
  /// All devices. Empty: the file does not say it.
  std::optional<std::int64_t> ranks;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t tensor = 1;
  /// Ranks that share the experts of a mixture. They are a part of those that share the batch.
  std::int64_t expert = 1;
  OptionValues pipeline_options;
  OptionValues context_options;
  OptionValues tensor_options;
  /// 0: replicas share nothing.
  std::int64_t zero_stage = 0;
  OptionValues zero_options;
  /// Copies of what ZeRO shards.
  std::int64_t replicas = 1;
  /// Ranks that share a second copy of the parameters (ZeRO++). They are a part of those that share the batch.
  std::int64_t partition = 1;
  /// True if the ranks of a context axis share the storage too.
  bool shards_over_context = false;
  /// Options of strategies without an axis. Empty: the stack has none.
  std::optional<OptionValues> recompute;
  std::optional<OptionValues> precision;
  std::optional<OptionValues> lora;
  /// Samples of one micro-batch on one replica.
  std::int64_t micro = 1;
  /// Samples of a step. Empty: micro · accumulated · replicas.
  std::optional<std::int64_t> global;
  /// Micro-batches of a step on one replica. Empty: the file does not say it.
  std::optional<std::int64_t> accumulated;
};

/// The settings of another program, and what becomes of them.
struct ImportedRun {
  ForeignSettings& settings;
  RunConfiguration configuration;
  ForeignLayout layout;
  bool has_model = false;
  bool has_steps = false;
  bool has_data = false;

  void set_model(std::string plugin, OptionValues options);
  void set_optimizer(const std::string& path, const std::string& plugin, OptionValues options = {});
  /// bf16 or fp16 by flags of the other program; neither leaves f32.
  void set_precision(bool bf16, bool fp16);
};

/// Fills in what the file left open, joins the strategies to a stack, and remarks on both. \throws ConfigurationError
/// if the numbers do not fit each other.
void complete_run(ImportedRun& run);

/// Programs differ in the case of their words.
[[nodiscard]] std::string lower_case(std::string text);

/// Each reads the settings of one program into `run`, and returns reasons for settings that it does not read, by the
/// begin of their path.
using ImportReasons = std::map<std::string, std::string>;
ImportReasons import_deepspeed(ImportedRun& run);
/// Reads the file of DeepSpeed that the value at `path` names, relative to the folder of the settings or to the current
/// one. Remarks if it is not there.
void import_deepspeed_file(ImportedRun& run, const std::string& path);
ImportReasons import_accelerate(ImportedRun& run);
ImportReasons import_axolotl(ImportedRun& run);
ImportReasons import_torchtitan(ImportedRun& run);
ImportReasons import_megatron(ImportedRun& run);

}  // namespace strata::host
