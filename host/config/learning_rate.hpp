#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

enum class WarmupType : std::uint8_t { linear, logarithmic };

/// The section [optimizer.schedule].
struct ScheduleSection {
  /// Name of a ScheduleKind.
  std::string kind = "constant";
  std::int64_t warmup = 0;
  WarmupType warmup_type = WarmupType::linear;
  double min_lr = 0;
  std::int64_t decay = 0;
  double power = 1;
  /// The points of kind "points": ascending steps, and a factor of lr for each.
  std::vector<double> steps = {};
  std::vector<double> factors = {};

  bool operator==(const ScheduleSection&) const = default;
};

/// The learning rate as a function of the step.
struct LearningRateSchedule {
  ScheduleSection section;
  double lr = 1e-3;
  /// Number of steps of the whole run.
  std::int64_t run_steps = 0;

  /// Learning rate of step `step`, counted from 0. It is at least 0 and at most lr.
  [[nodiscard]] double operator()(std::uint64_t step) const;
};

/// A kind of schedule. A factor f means the learning rate min_lr + (lr - min_lr) · f, so 1 means lr and 0 means min_lr.
/// For a kind without the key min_lr it means lr · f.
struct ScheduleKind {
  std::string_view name;
  /// One sentence.
  std::string_view documentation;
  /// The keys of an example in TOML.
  std::string_view example;
  /// The keys of the section that the kind reads. It ignores the others.
  std::vector<std::string_view> keys;
  /// True if the kind decays after a warm-up from 0. Then `factor` is called for the steps from `warmup` on. Otherwise
  /// it is called for all steps.
  bool decays = false;
  /// The factor of step `step`, counted from 0. It is from 0 to 1.
  double (*factor)(const LearningRateSchedule& schedule, double step) = nullptr;

  [[nodiscard]] bool reads(std::string_view key) const;
};

/// All kinds of schedules, in the order of the reference.
const std::vector<ScheduleKind>& schedule_kinds();

/// The kind named `name`. \throws std::out_of_range if there is none, which is a defect.
const ScheduleKind& schedule_kind(std::string_view name);

}  // namespace strata::host
