#include "config/sections.hpp"

#include <stdexcept>
#include <utility>

#include "config/health_section.hpp"
#include "config/learning_rate.hpp"
#include "config/log_section.hpp"
#include "config/run_declaration.hpp"
#include "config/section_values.hpp"

namespace strata::host {
namespace {

SectionDeclaration model_section() {
  return {.path = "model",
          .documentation = "The model.",
          .schema =
              {{.name = "plugin",
                .type = OptionType::word,
                .default_value = "",
                .documentation =
                    "Name of the model plugin, as `strata plugins list` shows it. It may be missing if `from` is set."},
               {.name = "from",
                .type = OptionType::word,
                .default_value = "",
                .documentation =
                    "A checkpoint, the output folder of a run for its last one, or a folder of Hugging Face, from "
                    "whose values training starts. The plugin and its options are those of the checkpoint, except "
                    "for options that are set. Empty: random values."}},
          .has_plugin = true};
}

SectionDeclaration data_section() {
  return {
      .path = "data",
      .documentation = "The data that the model is trained on.",
      .schema =
          {
              {.name = "plugin",
               .type = OptionType::word,
               .default_value = "text",
               .documentation = "Name of the dataset plugin."},
              {.name = "allow_changed",
               .type = OptionType::boolean,
               .default_value = false,
               .documentation = "Let a run continue from a checkpoint although the content of the data has changed."},
          },
      .has_plugin = true};
}

SectionDeclaration batch_section() {
  return {.path = "batch",
          .documentation = "Batch sizes. A step has global / (micro · replicas) micro-batches on each replica.",
          .schema = {
              {.name = "global",
               .type = OptionType::integer,
               .documentation = "Samples of a step over all ranks: a multiple of micro times the number of replicas.",
               .minimum = 1},
              {.name = "micro",
               .type = OptionType::integer,
               .default_value = 1,
               .documentation = "Samples of one micro-batch on one replica.",
               .minimum = 1},
          }};
}

SectionDeclaration optimizer_section() {
  return {
      .path = "optimizer",
      .documentation = "The optimizer, which updates the parameters.",
      .schema =
          {
              {.name = "plugin",
               .type = OptionType::word,
               .default_value = "adamw",
               .documentation = "Name of the optimizer plugin."},
              {.name = "lr",
               .type = OptionType::number,
               .default_value = 1e-3,
               .documentation = "Learning rate; with a schedule, its highest value.",
               .minimum = 0},
              {.name = "weight_decay",
               .type = OptionType::number,
               .default_value = 0.1,
               .documentation =
                   "Decoupled weight decay of matrices. Vectors, such as biases and norm weights, never decay.",
               .minimum = 0},
              {.name = "clip",
               .type = OptionType::number,
               .default_value = 1.0,
               .documentation =
                   "Gradients are scaled down to this global norm if theirs is larger; 0 turns clipping off.",
               .minimum = 0},
              {.name = "clip_value",
               .type = OptionType::number,
               .default_value = 0.0,
               .documentation = "Each element of the gradients is then limited to this magnitude; 0 turns this off.",
               .minimum = 0},
          },
      .has_plugin = true};
}

SectionDeclaration group_section() {
  return {.path = "optimizer.group",
          .documentation =
              "Parameters that are updated in another way than `[optimizer]` says. A parameter belongs to the "
              "first group that names it.",
          .schema =
              {
                  {.name = "parameters",
                   .type = OptionType::words,
                   .documentation =
                       "Names of parameters. `*` stands for any text, `?` for one character, `[a-z]` for one of "
                       "several: \"h.*.weight\"."},
                  {.name = "lr_factor",
                   .type = OptionType::number,
                   .default_value = 1.0,
                   .documentation = "Factor of the learning rate.",
                   .minimum = 0},
                  {.name = "weight_decay_factor",
                   .type = OptionType::number,
                   .default_value = 1.0,
                   .documentation = "Factor of the weight decay; 0 turns it off.",
                   .minimum = 0},
                  {.name = "frozen",
                   .type = OptionType::boolean,
                   .default_value = false,
                   .documentation = "Keep the initial values: no gradients, no states."},
                  {.name = "plugin",
                   .type = OptionType::word,
                   .default_value = "",
                   .documentation =
                       "Name of another optimizer plugin for these parameters. Empty means that of `[optimizer]`, "
                       "with its options."},
              },
          .has_plugin = true,
          .repeated = true};
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleKind& kind : schedule_kinds()) names.emplace_back(kind.name);
  return names;
}

/// One note per kind of schedule, with an example.
std::vector<std::string> schedule_notes() {
  std::vector<std::string> notes;
  for (const ScheduleKind& kind : schedule_kinds()) {
    std::string keys;
    for (const std::string_view key : kind.keys) keys += (keys.empty() ? " Reads `" : ", `") + std::string(key) + "`";
    notes.push_back("`" + std::string(kind.name) + "`: " + std::string(kind.documentation) + keys +
                    (keys.empty() ? "" : ".") + " Example: `schedule = { " + std::string(kind.example) + " }`");
  }
  return notes;
}

/// The keys of a schedule. `minimum`: the key of its smallest value, which it begins or ends at.
OptionSchema schedule_keys(OptionSpecification minimum) {
  return {{.name = "kind",
           .type = OptionType::word,
           .default_value = "constant",
           .documentation = "Shape of the schedule; each is described below.",
           .choices = schedule_names()},
          {.name = "warmup",
           .type = OptionType::integer,
           .default_value = 0,
           .documentation = "Steps of the warm-up. The kind warmup rises from " + minimum.name +
                            " and has lr at the first step after them. The kinds that decay rise from 0 and have lr at "
                            "the last of them: step 0 of a linear warm-up has lr / warmup. constant and points have no "
                            "warm-up.",
           .minimum = 0},
          {.name = "warmup_type",
           .type = OptionType::word,
           .default_value = "linear",
           .documentation = "How the learning rate rises in the warm-up: with the step, or with its logarithm.",
           .choices = {"linear", "log"}},
          std::move(minimum),
          {.name = "decay",
           .type = OptionType::integer,
           .default_value = 0,
           .documentation = "Steps at the end of the run over which wsd decays, from 1 to run.steps - warmup.",
           .minimum = 0},
          {.name = "power",
           .type = OptionType::number,
           .default_value = 1.0,
           .documentation = "Exponent of polynomial. 1 is a straight line; a larger one falls faster at first.",
           .minimum = 0.001},
          {.name = "steps",
           .type = OptionType::numbers,
           .default_value = std::vector<double>{},
           .documentation = "Steps of the curve of the kind points, strictly ascending.",
           .minimum = 0},
          {.name = "factors",
           .type = OptionType::numbers,
           .default_value = std::vector<double>{},
           .documentation = "Shares of lr at those steps, one for each.",
           .minimum = 0,
           .maximum = 1}};
}

SectionDeclaration schedule_section() {
  return {
      .path = "optimizer.schedule",
      .documentation =
          "The schedule of the learning rate over the steps of the run, which are counted from 0. A kind ignores keys "
          "that it does not read. Warm-up and decay must fit into run.steps, unless --set gives it. `--steps 10` "
          "runs the first 10 steps of a schedule. After run.steps a decay stays at its end.",
      .schema =
          schedule_keys({.name = kMinLearningRate,
                         .type = OptionType::number,
                         .default_value = 0.0,
                         .documentation = "Learning rate at which the kind warmup begins and a decay ends; at most lr.",
                         .minimum = 0}),
      .notes = schedule_notes()};
}

SectionDeclaration weight_decay_schedule_section() {
  return {.path = "optimizer.weight_decay_schedule",
          .documentation =
              "The schedule of a factor of all weight decays. It has the kinds of [optimizer.schedule]; where these "
              "speak of lr, the factor is 1. `weight_decay_schedule = { kind = \"linear\", min_factor = 0.1 }` is an "
              "example.",
          .schema = schedule_keys({.name = kMinFactor,
                                   .type = OptionType::number,
                                   .default_value = 0.0,
                                   .documentation = "Factor at which the kind warmup begins and a decay ends.",
                                   .minimum = 0,
                                   .maximum = 1})};
}

SectionDeclaration average_section() {
  return {.path = "optimizer.average",
          .documentation =
              "An exponential moving average of the trained weights, which checkpoints contain. After every step it "
              "becomes decay · average + (1 - decay) · weights. It begins as the initial weights, whose share after n "
              "steps is decay^n. `average = { decay = 0.99 }` is an example.",
          .schema = {{.name = "decay",
                      .type = OptionType::number,
                      .default_value = 0.0,
                      .documentation = "Share of the average that a step keeps; below 1. 0 keeps no average.",
                      .minimum = 0,
                      .maximum = 1},
                     {.name = "evaluate",
                      .type = OptionType::boolean,
                      .default_value = true,
                      .documentation = "Whether evaluations read the average, if there is one, instead of the trained "
                                       "weights."}}};
}

SectionDeclaration device_section() {
  return {.path = "device",
          .documentation = "The device that computes.",
          .schema = {{.name = "plugin",
                      .type = OptionType::word,
                      .default_value = "cpu",
                      .documentation = "Name of the device plugin."}},
          .has_plugin = true};
}

SectionDeclaration communicator_section() {
  return {.path = "communicator",
          .documentation = "The communicator that carries data between ranks.",
          .schema = {{.name = "plugin",
                      .type = OptionType::word,
                      .default_value = "local",
                      .documentation = "Name of the communicator plugin."}},
          .has_plugin = true};
}

SectionDeclaration strategy_section() {
  return {.path = "strategy",
          .documentation =
              "A strategy, such as a parallelism: one table each, outermost mesh axis first. Without any, the run has "
              "one rank.",
          .schema = {{.name = "plugin", .type = OptionType::word, .documentation = "Name of the strategy plugin."}},
          .has_plugin = true,
          .repeated = true};
}

SectionDeclaration library_section() {
  return {
      .path = "library",
      .documentation = "A plugin that adds ops and kernels, such as a faster kernel for a known op: one table each.",
      .schema = {{.name = "plugin", .type = OptionType::word, .documentation = "Name of the library plugin."}},
      .has_plugin = true,
      .repeated = true};
}

}  // namespace

const std::vector<SectionDeclaration>& section_declarations() {
  static const std::vector<SectionDeclaration> declarations = {
      run_declaration(), shrink_declaration(),   model_section(),      data_section(),
      batch_section(),   optimizer_section(),    schedule_section(),   weight_decay_schedule_section(),
      average_section(), group_section(),        health_declaration(), log_declaration(),
      device_section(),  communicator_section(), strategy_section(),   library_section()};
  return declarations;
}

const SectionDeclaration& section_declaration(const std::string& path) {
  for (const SectionDeclaration& declaration : section_declarations()) {
    if (declaration.path == path) return declaration;
  }
  throw std::out_of_range("no section '" + path + "' is declared");
}

std::string declared_path(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  const bool is_number = dot != std::string::npos && path.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return is_number ? path.substr(0, dot) : path;
}

std::vector<std::string> known_keys(const std::string& path) {
  std::vector<std::string> keys;
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const SectionDeclaration& declaration : section_declarations()) {
    if (declaration.path == path) {
      for (const OptionSpecification& option : declaration.schema.options()) keys.push_back(option.name);
    }
    if (declaration.path.starts_with(prefix) && declaration.path.find('.', prefix.size()) == std::string::npos &&
        declaration.path.size() > prefix.size()) {
      keys.push_back(declaration.path.substr(prefix.size()));
    }
  }
  return keys;
}

}  // namespace strata::host
