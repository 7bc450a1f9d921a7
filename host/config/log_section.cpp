#include "config/log_section.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "config/sections.hpp"

namespace strata::host {
namespace {

/// The words of NormGroups, in the order of its enumerators.
constexpr std::array<std::string_view, 4> kNormGroups = {"auto", "none", "layer", "optimizer_group"};

}  // namespace

NormGroups LogSection::chosen_groups() const {
  if (norm_groups != NormGroups::automatic) return norm_groups;
  return tensorboard ? NormGroups::layer : NormGroups::none;
}

SectionDeclaration log_declaration() {
  return {
      .path = "log",
      .documentation = "What the run writes about its steps, besides the log of `--log-json`.",
      .schema = {
          {.name = "tensorboard",
           .type = OptionType::boolean,
           .default_value = false,
           .documentation = "Write event files for TensorBoard to the output folder."},
          {.name = "norm_groups",
           .type = OptionType::word,
           .default_value = "auto",
           .documentation = "Parameters whose gradient norm is logged apart, beside the global norm: those of each "
                            "layer, or of each `[[optimizer.group]]`. auto means layer with tensorboard, else none.",
           .choices = {kNormGroups.begin(), kNormGroups.end()}},
          {.name = "peak_tflops",
           .type = OptionType::number,
           .default_value = 0.0,
           .documentation = "Peak rate of one rank's device in 10^12 FLOP/s, of which the model FLOPs utilisation is a "
                            "share. 0: with tensorboard, the rate of a matrix product, measured at the start.",
           .minimum = 0,
           .may_differ = true},
          {.name = "metrics",
           .type = OptionType::word,
           .default_value = "",
           .documentation = "File that is replaced at most once a second with the run's numbers, in the text format of "
                            "Prometheus: step, loss, speed, memory, last checkpoint, restarts. Empty: none.",
           .may_differ = true},
          {.name = "heartbeat",
           .type = OptionType::word,
           .default_value = "",
           .documentation = "File that is replaced at most once a second with the time and the step of the last "
                            "progress. Empty: none.",
           .may_differ = true}}};
}

LogSection log_section(const Options& options) {
  const auto word = std::find(kNormGroups.begin(), kNormGroups.end(), options.word("norm_groups"));
  return {.tensorboard = options.boolean("tensorboard"),
          .norm_groups = static_cast<NormGroups>(word - kNormGroups.begin()),
          .peak_tflops = options.number("peak_tflops"),
          .metrics = options.word("metrics"),
          .heartbeat = options.word("heartbeat")};
}

Options to_options(const LogSection& section) {
  return Options({{"tensorboard", section.tensorboard},
                  {"norm_groups", std::string(kNormGroups.at(static_cast<std::size_t>(section.norm_groups)))},
                  {"peak_tflops", section.peak_tflops},
                  {"metrics", section.metrics},
                  {"heartbeat", section.heartbeat}});
}

}  // namespace strata::host
