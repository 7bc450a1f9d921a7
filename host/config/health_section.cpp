#include "config/health_section.hpp"

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "config/run_configuration.hpp"
#include "config/sections.hpp"

namespace strata::host {
namespace {

/// The words of HealthAction, in the order of its enumerators.
constexpr std::array<std::string_view, 3> kHealthActions = {"stop", "skip", "rewind"};

HealthAction action_of(const std::string& word) {
  for (std::size_t i = 0; i < kHealthActions.size(); ++i) {
    if (kHealthActions[i] == word) return static_cast<HealthAction>(i);
  }
  throw std::logic_error("the declared choice '" + word + "' has no value");
}

OptionSpecification action_key(const char* name, const char* documentation) {
  return {.name = name,
          .type = OptionType::word,
          .default_value = "stop",
          .documentation = documentation,
          .choices = {kHealthActions.begin(), kHealthActions.end()}};
}

OptionSpecification factor_key(const char* name, const char* documentation) {
  return {.name = name,
          .type = OptionType::number,
          .default_value = 0.0,
          .documentation = documentation,
          .minimum = 0,
          .maximum = 1e6};
}

void check_factor(const RunConfiguration& configuration, const std::string& key, double factor) {
  if (factor == 0 || factor > 1) return;
  throw configuration.error("health." + key, "found " + strata::to_string(OptionValue(factor)) +
                                                 "; accepted: 0, which finds no jumps, or a number above 1");
}

/// Checks that the run can take an action. `key`: of the kind of bad step.
void check_action(const RunConfiguration& configuration, const std::string& key, HealthAction action) {
  const std::string path = "health." + key;
  if (action == HealthAction::rewind && configuration.run.checkpoint_every == 0) {
    throw configuration.error(path,
                              "found \"rewind\", but run.checkpoint_every is 0, so there is no checkpoint to go back "
                              "to; accepted: run.checkpoint_every of at least 1, \"stop\" or \"skip\"");
  }
  if (action == HealthAction::skip && configuration.optimizer.average.decay > 0) {
    throw configuration.error(path,
                              "found \"skip\", but optimizer.average moves in every step; accepted: "
                              "optimizer.average.decay = 0, \"stop\" or \"rewind\"");
  }
}

}  // namespace

std::string action_word(HealthAction action) {
  return std::string(kHealthActions.at(static_cast<std::size_t>(action)));
}

SectionDeclaration health_declaration() {
  return {
      .path = "health",
      .documentation =
          "What the run does about a bad step: one whose loss or gradient norm is not finite, or jumps. `stop` ends "
          "the run with exit code 1. `skip` leaves out the update of the step. `rewind` goes back to the newest "
          "checkpoint before the step and leaves out the data up to that step. A step that loss scaling skips is not a "
          "bad one.",
      .schema = {
          action_key("not_finite", "What to do if the loss or the gradient norm is not finite."),
          action_key("jump", "What to do if the loss or the gradient norm jumps."),
          factor_key("loss_jump",
                     "The loss jumps if it exceeds this factor times its median of the last steps; 0: never."),
          factor_key("norm_jump",
                     "The gradient norm jumps if it exceeds this factor times its median of the last steps; 0: never."),
          {.name = "window",
           .type = OptionType::integer,
           .default_value = 100,
           .documentation = "Number of good steps of which the medians are. Before that many, nothing jumps.",
           .minimum = 2,
           .maximum = 10000},
          {.name = "max_skips",
           .type = OptionType::integer,
           .default_value = 10,
           .documentation = "Number of steps in a row that may be skipped. The next bad one ends the run.",
           .minimum = 1},
          {.name = "max_rewinds",
           .type = OptionType::integer,
           .default_value = 3,
           .documentation = "How many times the run may go back. The next time ends the run.",
           .minimum = 1}}};
}

HealthSection health_section(const Options& options) {
  return {.not_finite = action_of(options.word("not_finite")),
          .jump = action_of(options.word("jump")),
          .loss_jump = options.number("loss_jump"),
          .norm_jump = options.number("norm_jump"),
          .window = options.integer("window"),
          .max_skips = options.integer("max_skips"),
          .max_rewinds = options.integer("max_rewinds")};
}

Options to_options(const HealthSection& section) {
  return Options({{"not_finite", action_word(section.not_finite)},
                  {"jump", action_word(section.jump)},
                  {"loss_jump", section.loss_jump},
                  {"norm_jump", section.norm_jump},
                  {"window", section.window},
                  {"max_skips", section.max_skips},
                  {"max_rewinds", section.max_rewinds}});
}

void check_health(const RunConfiguration& configuration) {
  const HealthSection& health = configuration.health;
  check_factor(configuration, "loss_jump", health.loss_jump);
  check_factor(configuration, "norm_jump", health.norm_jump);
  check_action(configuration, "not_finite", health.not_finite);
  if (health.finds_jumps()) check_action(configuration, "jump", health.jump);
}

}  // namespace strata::host
