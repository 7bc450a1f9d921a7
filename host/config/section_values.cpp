#include "config/section_values.hpp"

#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace strata::host {
namespace {

// Words of the enumeration, in the order of its enumerators.
constexpr std::array<std::string_view, 2> kWarmupTypes = {"linear", "log"};
constexpr std::array<std::string_view, 2> kCheckpointModes = {"background", "foreground"};

template <class Enumeration, std::size_t N>
Enumeration from_word(const std::array<std::string_view, N>& words, const std::string& word) {
  for (std::size_t i = 0; i < N; ++i) {
    if (words[i] == word) return static_cast<Enumeration>(i);
  }
  throw std::logic_error("the declared choice '" + word + "' has no value");
}

template <class Enumeration, std::size_t N>
std::string word_of(const std::array<std::string_view, N>& words, Enumeration value) {
  return std::string(words.at(static_cast<std::size_t>(value)));
}

}  // namespace

RunSection run_section(const Options& options, const Options& shrink) {
  RunSection section{.name = options.word("name"),
                     .steps = options.integer("steps"),
                     .stop_at_step = options.integer("stop_at_step"),
                     .seed = options.integer("seed"),
                     .output = options.word("output"),
                     .checkpoint_every = options.integer("checkpoint_every"),
                     .keep_checkpoints = options.integer("keep_checkpoints"),
                     .checkpoint_mode = from_word<CheckpointMode>(kCheckpointModes, options.word("checkpoint_mode")),
                     .eval_every = options.integer("eval_every"),
                     .eval_batches = options.integer("eval_batches"),
                     .log_every = options.integer("log_every"),
                     .resume = options.word("resume"),
                     .accept_changed = options.words("accept_changed"),
                     .stop_after = options.word("stop_after"),
                     .stop_before_job_end = options.word("stop_before_job_end"),
                     .watchdog = options.number("watchdog"),
                     .stop_grace = options.number("stop_grace"),
                     .shrink = {.axis = shrink.word("axis"), .min = shrink.integer("min")}};
  if (section.output.empty()) section.output = "runs/" + section.name;
  return section;
}

DataSection data_section(PluginSection dataset, const Options& options) {
  return {.dataset = std::move(dataset), .allow_changed = options.boolean("allow_changed")};
}

BatchSection batch_section(const Options& options) {
  return {.global = options.integer("global"), .micro = options.integer("micro")};
}

ScheduleSection schedule_section(const Options& options, const std::string& minimum) {
  return {.kind = options.word("kind"),
          .warmup = options.integer("warmup"),
          .warmup_type = from_word<WarmupType>(kWarmupTypes, options.word("warmup_type")),
          .min_lr = options.number(minimum),
          .decay = options.integer("decay"),
          .power = options.number("power"),
          .steps = options.numbers("steps"),
          .factors = options.numbers("factors")};
}

OptimizerSection optimizer_section(PluginSection optimizer, const Options& options, const Options& schedule,
                                   const Options& weight_decay_schedule, const Options& average) {
  return {.optimizer = std::move(optimizer),
          .lr = options.number("lr"),
          .weight_decay = options.number("weight_decay"),
          .clip = options.number("clip"),
          .clip_value = options.number("clip_value"),
          .schedule = schedule_section(schedule, kMinLearningRate),
          .weight_decay_schedule = schedule_section(weight_decay_schedule, kMinFactor),
          .average = {.decay = average.number("decay"), .evaluate = average.boolean("evaluate")},
          .groups = {}};
}

OptimizerGroupSection group_section(PluginSection optimizer, const Options& options) {
  return {.optimizer = std::move(optimizer),
          .parameters = options.words("parameters"),
          .lr_factor = options.number("lr_factor"),
          .weight_decay_factor = options.number("weight_decay_factor"),
          .frozen = options.boolean("frozen")};
}

Options to_options(const RunSection& section) {
  return Options({{"name", section.name},
                  {"steps", section.steps},
                  {"stop_at_step", section.stop_at_step},
                  {"seed", section.seed},
                  {"output", section.output},
                  {"checkpoint_every", section.checkpoint_every},
                  {"keep_checkpoints", section.keep_checkpoints},
                  {"checkpoint_mode", word_of(kCheckpointModes, section.checkpoint_mode)},
                  {"eval_every", section.eval_every},
                  {"eval_batches", section.eval_batches},
                  {"log_every", section.log_every},
                  {"resume", section.resume},
                  {"accept_changed", section.accept_changed},
                  {"stop_after", section.stop_after},
                  {"stop_before_job_end", section.stop_before_job_end},
                  {"watchdog", section.watchdog},
                  {"stop_grace", section.stop_grace}});
}

Options to_options(const ShrinkSection& section) { return Options({{"axis", section.axis}, {"min", section.min}}); }

Options to_options(const DataSection& section) {
  return Options({{"plugin", section.dataset.plugin}, {"allow_changed", section.allow_changed}});
}

Options to_options(const BatchSection& section) {
  return Options({{"global", section.global}, {"micro", section.micro}});
}

Options to_options(const OptimizerSection& section) {
  return Options({{"plugin", section.optimizer.plugin},
                  {"lr", section.lr},
                  {"weight_decay", section.weight_decay},
                  {"clip", section.clip},
                  {"clip_value", section.clip_value}});
}

Options to_options(const OptimizerGroupSection& section) {
  return Options({{"parameters", section.parameters},
                  {"lr_factor", section.lr_factor},
                  {"weight_decay_factor", section.weight_decay_factor},
                  {"frozen", section.frozen},
                  {"plugin", section.optimizer.plugin}});
}

Options to_options(const AverageSection& section) {
  return Options({{"decay", section.decay}, {"evaluate", section.evaluate}});
}

Options to_options(const ScheduleSection& section, const std::string& minimum) {
  return Options({{"kind", section.kind},
                  {"warmup", section.warmup},
                  {"warmup_type", word_of(kWarmupTypes, section.warmup_type)},
                  {minimum, section.min_lr},
                  {"decay", section.decay},
                  {"power", section.power},
                  {"steps", section.steps},
                  {"factors", section.factors}});
}

}  // namespace strata::host
