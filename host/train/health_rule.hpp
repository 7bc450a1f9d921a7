#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_manifest.hpp"
#include "compiler/optimizer_groups.hpp"
#include "config/run_configuration.hpp"
#include "log/training_record.hpp"
#include "runtime/executor.hpp"

namespace strata::host {

/// The guard that a training step needs for the rules of [health].
[[nodiscard]] StepGuard guard_for(const HealthSection& settings);

/// The rules of [health]. Every rank has them. All ranks pass the same losses and gradient norms, so all decide alike.
class HealthRule {
 public:
  explicit HealthRule(const HealthSection& settings) : settings_(settings) {}

  [[nodiscard]] const HealthState& state() const { return state_; }
  /// Continues from the state in a checkpoint. A shorter window keeps its newest steps.
  void restore(HealthState state);

  /// The largest loss and gradient norm of the next step that are no jump. Infinite if nothing is.
  [[nodiscard]] double largest_loss() const;
  [[nodiscard]] double largest_norm() const;

  /// Judges a step, and records it. `is_refused`: true if the program's guard left out its update. \return what is
  /// wrong with the step. Empty if it is good.
  [[nodiscard]] std::optional<HealthRecord> judge(const StepRecord& record, bool is_refused);

  /// Records that the run went back and left out samples. `checkpoint`: the rules' state in the checkpoint that it went
  /// back to, which is of `step`.
  void go_back(HealthState checkpoint, std::uint64_t step, const SampleRange& left_out);

 private:
  void record_good(const StepRecord& record);
  [[nodiscard]] std::string describe_jump(const StepRecord& record) const;
  /// The action of a rule, or to stop if that was taken too often. Then `reason` says so.
  [[nodiscard]] HealthAction limited(HealthAction action, std::string& reason) const;

  HealthSection settings_;
  HealthState state_;
};

/// Writes the limits of the next step to a program whose guard has limits.
void write_limits(Executor& training, const HealthRule& rule);

/// True if the program's guard left out the update of the step.
[[nodiscard]] bool is_refused(const Reports& reports);

}  // namespace strata::host
