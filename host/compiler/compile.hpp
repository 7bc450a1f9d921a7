#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/memory_plan.hpp"
#include "strata/device.hpp"
#include "strata/model.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// A strategy with the name that messages call it by ("strategy 1 'ddp'").
struct NamedStrategy {
  std::string name;
  std::shared_ptr<const Strategy> strategy;
};

/// The update rule, as far as the program contains it; the learning rate comes at run time.
struct OptimizerSettings {
  enum class Kind : std::uint8_t { adamw, sgd };
  Kind kind = Kind::adamw;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.0;
  double weight_decay = 0.1;
  /// Largest global gradient norm; 0 for no clipping.
  double clip = 1.0;
};

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
};

/// The mesh that the strategies span, outermost first.
[[nodiscard]] Mesh build_mesh(const std::vector<NamedStrategy>& strategies);

/// Ranks over which the batch is split: the product of the axes that shard "batch".
[[nodiscard]] std::int64_t replica_count(const std::vector<NamedStrategy>& strategies);

/// build ─► rewrite ─► differentiate ─► rewrite ─► partition ─► gradients ─► schedule ─► memory plan, verified after
/// each. \param shared memory of a program of the same ranks that is compiled already, by class. \throws
/// ConfigurationError for what cannot be, VerificationError for defects.
[[nodiscard]] Compiled compile(const CompileRequest& request, const std::vector<SharedMemory>& shared = {});

}  // namespace strata::host
