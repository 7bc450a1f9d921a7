#pragma once

#include "config/run_configuration.hpp"

namespace strata::host {

/// Converts checked options to typed sections and back. Apart from the declarations, only this code spells the names of
/// the host's keys.
RunSection run_section(const Options& options, const Options& shrink);
DataSection data_section(PluginSection dataset, const Options& options);
BatchSection batch_section(const Options& options);
/// Keys of the smallest value of [optimizer.schedule] and of [optimizer.weight_decay_schedule].
inline constexpr const char* kMinLearningRate = "min_lr";
inline constexpr const char* kMinFactor = "min_factor";

/// `minimum`: the key of the smallest value.
ScheduleSection schedule_section(const Options& options, const std::string& minimum);
OptimizerSection optimizer_section(PluginSection optimizer, const Options& options, const Options& schedule,
                                   const Options& weight_decay_schedule, const Options& average);
OptimizerGroupSection group_section(PluginSection optimizer, const Options& options);

Options to_options(const RunSection& section);
Options to_options(const ShrinkSection& section);
Options to_options(const DataSection& section);
Options to_options(const BatchSection& section);
Options to_options(const OptimizerSection& section);
Options to_options(const OptimizerGroupSection& section);
Options to_options(const AverageSection& section);
Options to_options(const ScheduleSection& section, const std::string& minimum);

}  // namespace strata::host
