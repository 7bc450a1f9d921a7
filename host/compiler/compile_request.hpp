#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/continue_sequence.hpp"
#include "compiler/memory/memory_packing.hpp"
#include "compiler/optimizer_groups.hpp"
#include "compiler/stack.hpp"
#include "files/phase_times.hpp"
#include "strata/device.hpp"
#include "strata/model.hpp"
#include "strata/op.hpp"

namespace strata::host {

struct Stages;

/// The inputs of compile().
struct CompileRequest {
  std::shared_ptr<const Model> model;
  /// The names of model and device in errors.
  PluginOrigin model_origin{PluginKind::model, -1, "the model"};
  PluginOrigin device_origin{PluginKind::device, -1, "the device"};
  std::vector<NamedStrategy> strategies;
  const OpRegistry* registry = nullptr;
  GraphMode mode = GraphMode::training;
  /// Graph outputs to keep, such as "logits" for generation. Empty: keeps losses and their count.
  std::vector<std::string> outputs;
  DType float_type = DType::f32;
  /// Samples of a step over all replicas, and of one micro-batch on one replica.
  std::int64_t global_batch = 1;
  std::int64_t micro_batch = 1;
  /// Sizes that the model's options and the data fix, without "batch".
  DimSizes sizes;
  OptimizerSettings optimizer;
  /// For an evaluation pass beside a training step: the passes of one evaluation, which reads the moving averages of
  /// the weights. 0: it reads the weights.
  std::int64_t average_period = 0;
  /// Set for a step of generation, which computes new positions of texts only.
  std::optional<SequenceContinuation> continuation;
  /// The device that is asked for its kernels and their workspaces. Null: every op is supported, without a workspace.
  const Device* device = nullptr;
  /// Measures the phases. Null: nobody does.
  PhaseTimes* times = nullptr;
  /// True for programs that are never run: checks that only find defects of the compiler or of plugins are left out.
  /// Stages that are alike repeat the program of the first of them, names included, with their own messages and order
  /// of tasks. Their memory is that of the fullest of them.
  bool is_trial = false;
  /// How long the smallest arena is sought.
  PackingEffort packing = PackingEffort::best;
  /// The placement of the blocks, if it is known. Null: the strategies place them.
  const Stages* stages = nullptr;

  [[nodiscard]] bool is_training() const { return mode == GraphMode::training; }
};

}  // namespace strata::host
