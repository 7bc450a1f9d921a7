#include "settings.hpp"

#include "strata/error.hpp"

namespace localsgd {

using namespace strata;

const OptionSchema& schema() {
  static const OptionSchema kSchema{
      {.name = "size",
       .type = OptionType::integer,
       .documentation = "Ranks along the axis: replicas that train apart between outer steps.",
       .minimum = 1,
       .maximum = 65536},
      {.name = "axis",
       .type = OptionType::word,
       .default_value = OptionValue(std::string("replica")),
       .documentation = "Name of the mesh axis."},
      {.name = "steps",
       .type = OptionType::integer,
       .default_value = OptionValue(std::int64_t{100}),
       .documentation = "Inner steps between two outer steps of a parameter.",
       .minimum = 1,
       .maximum = 1 << 20},
      {.name = "outer_lr",
       .type = OptionType::number,
       .default_value = OptionValue(0.7),
       .documentation = "Learning rate of the outer steps; 1 without momentum averages the replicas.",
       .minimum = 0,
       .maximum = 100},
      {.name = "outer_momentum",
       .type = OptionType::number,
       .default_value = OptionValue(0.9),
       .documentation = "Momentum of the outer steps; 0 keeps no momentum.",
       .minimum = 0,
       .maximum = 0.9999},
      {.name = "nesterov",
       .type = OptionType::boolean,
       .default_value = OptionValue(true),
       .documentation = "Use Nesterov momentum in outer steps."},
      {.name = "fragments",
       .type = OptionType::integer,
       .default_value = OptionValue(std::int64_t{1}),
       .documentation = "Groups of blocks that take their outer steps in turns, block i in group i modulo this number. "
                        "It divides the peak of the traffic.",
       .minimum = 1,
       .maximum = 65536},
      {.name = "overlap",
       .type = OptionType::boolean,
       .default_value = OptionValue(false),
       .documentation =
           "Exchange outer gradients during the step after they were computed, and apply them at its end."},
      {.name = "mixing",
       .type = OptionType::number,
       .default_value = OptionValue(0.5),
       .documentation = "With overlap: the share of a replica's own values that an outer step keeps.",
       .minimum = 0,
       .maximum = 1},
      {.name = "outer_gradients",
       .type = OptionType::word,
       .default_value = OptionValue(std::string("f32")),
       .documentation = "How outer gradients are exchanged: f32, or as 8- or 4-bit integers with one scale per block.",
       .choices = {"f32", "int8", "int4"}},
      {.name = "quantization",
       .type = OptionType::word,
       .default_value = OptionValue(std::string("on")),
       .documentation = "Whether outer gradients are quantised: on (but not in f64 runs, so that they are exact) or "
                        "always.",
       .choices = {"on", "always"}}};
  return kSchema;
}

Settings read_settings(const Options& options) {
  Settings settings;
  settings.axis = options.word("axis");
  settings.size = static_cast<int>(options.integer("size"));
  settings.steps = options.integer("steps");
  settings.outer_lr = options.number("outer_lr");
  settings.outer_momentum = options.number("outer_momentum");
  settings.nesterov = options.boolean("nesterov");
  settings.fragments = static_cast<int>(options.integer("fragments"));
  settings.overlap = options.boolean("overlap");
  settings.mixing = options.number("mixing");
  const std::string& type = options.word("outer_gradients");
  if (type != "f32") settings.bits = type == "int8" ? 8 : 4;
  settings.spares_f64 = options.word("quantization") == "on";
  const std::int64_t shortest = std::int64_t{settings.fragments} * (settings.overlap ? 2 : 1);
  if (settings.steps < shortest) {
    throw OptionError(
        "steps", "found " + std::to_string(settings.steps) + " with fragments = " + std::to_string(settings.fragments) +
                     (settings.overlap ? " and overlap" : "") + "; accepted: " + std::to_string(shortest) + " or more");
  }
  return settings;
}

}  // namespace localsgd
