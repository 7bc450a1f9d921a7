#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/memory/memory_plan.hpp"
#include "compiler/named_strategy.hpp"
#include "compiler/parameters/optimizer_settings.hpp"
#include "compiler/placement/stages.hpp"
#include "strata/device.hpp"
#include "strata/model.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Everything that determines a rank's program.
struct CompileRequest {
  std::shared_ptr<const Model> model;
  std::vector<NamedStrategy> strategies;
  const OpRegistry* registry = nullptr;
  GraphMode mode = GraphMode::training;
  /// Graph outputs to keep ("logits" for generation); losses and their count are kept when empty.
  std::vector<std::string> outputs;
  DType float_type = DType::f32;
  /// Sequences of a step over everything, and of one micro-batch on one replica.
  std::int64_t global_batch = 1;
  std::int64_t micro_batch = 1;
  /// Size of "vocab" where the data determines it.
  std::optional<std::int64_t> vocab;
  OptimizerSettings optimizer;
  /// Asked which ops it supports and how much scratch memory they need; null: anything, none.
  const Device* device = nullptr;
  std::uint64_t seed = 0;
};

/// What compiling gives: one program per class of ranks, each with its memory planned.
struct Compiled {
  Graph graph;
  Mesh mesh;
  Stages stages;
  std::vector<Program> programs;
  std::vector<MemoryPlan> plans;
  /// Index into programs, by rank.
  std::vector<int> class_of_rank;

  [[nodiscard]] const Program& program(int rank) const {
    return programs.at(static_cast<std::size_t>(class_of_rank.at(static_cast<std::size_t>(rank))));
  }
  [[nodiscard]] const MemoryPlan& plan(int rank) const {
    return plans.at(static_cast<std::size_t>(class_of_rank.at(static_cast<std::size_t>(rank))));
  }
  /// Whether some rank has transfers.
  [[nodiscard]] bool has_transfers() const;
};

/// The mesh that the strategies span, outermost first.
[[nodiscard]] Mesh build_mesh(const std::vector<NamedStrategy>& strategies);

/// Ranks over which the batch is split: the product of the axes that shard "batch".
[[nodiscard]] std::int64_t replica_count(const std::vector<NamedStrategy>& strategies);

/// Where the blocks of the model go, without compiling further.
[[nodiscard]] Stages find_stages(const CompileRequest& request);

/// build ─► rewrite ─► differentiate ─► rewrite ─► place ─► partition ─► gradients ─► schedule ─► memory plan, for
/// every class of ranks, verified after each. \param beside the training step of the same ranks, for an evaluation
/// pass: it has the parameters in the same memory and the blocks on the same stages. \throws ConfigurationError for
/// what cannot be, VerificationError for defects.
[[nodiscard]] Compiled compile(const CompileRequest& request, const Compiled* beside = nullptr);

}  // namespace strata::host
