#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <ostream>
#include <string>

#include "setup/run_setup.hpp"
#include "stack_configuration.hpp"
#include "verify/verification.hpp"

namespace strata::testing {

/// One stack of strategies over the small GPT-2.
struct StackRow {
  const char* name;
  /// The [[strategy]] tables.
  std::string strategies;
  int ranks = 1;
  int global_batch = 8;
  int micro_batch = 2;
  /// If false, uses the smallest sizes that the rules divide, for numbers of ranks that do not divide the small
  /// model's.
  bool full = true;
  /// Sizes that replace those of the small model.
  std::map<std::string, std::int64_t> model = {};
  /// True for attention inside of documents.
  bool documents = false;
  /// Gradients are longer, so that clipping is active.
  double clip = 0.5;
};

inline void PrintTo(const StackRow& row, std::ostream* out) { *out << row.name; }

inline const std::string kSequenceParallel = "sequence_parallel = true\n";

/// A [[strategy]] table.
inline std::string table(const std::string& plugin, const std::string& options) {
  return "[[strategy]]\nplugin = \"" + plugin + "\"\n" + options + "\n";
}

inline std::string table(const std::string& plugin, int size, const std::string& options = "") {
  return table(plugin, "size = " + std::to_string(size) + "\n" + options);
}

/// Keeps attention inside of documents.
inline void read_documents(host::RunConfiguration& configuration) {
  configuration.model.options["documents"] = true;
  configuration.data.dataset.plugin = "tokens";
  configuration.data.dataset.options["documents"] = std::string("token");
  configuration.data.dataset.options["document_end"] = std::int64_t{0};
}

/// Trains the row in f64 with dropout, clipping and accumulation, and compares it with one rank. `model` and `dataset`
/// replace the small GPT-2 and its text.
inline void expect_trains_as_one_rank(const StackRow& row, const host::PluginSection* model = nullptr,
                                      const host::PluginSection* dataset = nullptr) {
  host::RunConfiguration configuration = small_gpt2(row.strategies, row.global_batch, row.micro_batch);
  if (model != nullptr) configuration.model = *model;
  if (dataset != nullptr) configuration.data.dataset = *dataset;
  for (const auto& [option, size] : row.model) configuration.model.options[option] = size;
  if (row.documents) read_documents(configuration);
  configuration.optimizer.clip = row.clip;
  const host::Verification verification = host::verify_stack(configuration, built_plugins(), {3, row.full});
  EXPECT_EQ(verification.mesh.rank_count(), row.ranks);
  EXPECT_LT(verification.difference.worst(), 1e-10) << verification.difference.worst_parameter;
  EXPECT_EQ(verification.stack.replica_difference, 0);
  EXPECT_EQ(verification.stack.planned_peak_bytes, verification.stack.arena_peak_bytes);
  EXPECT_EQ(verification.stack.planned_offload, verification.stack.offload_peak);
  // The norm exceeds the limit, so clipping was active.
  EXPECT_GT(verification.single.gradient_norms.front(), row.clip);
}

/// The training programs of a configuration.
inline host::Compiled compile_training(const host::RunConfiguration& configuration, DType float_type = DType::f32) {
  const host::RunSetup setup = host::prepare(configuration, built_plugins());
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  host::CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = float_type;
  request.device = device.get();
  return setup.compile(request);
}

}  // namespace strata::testing
