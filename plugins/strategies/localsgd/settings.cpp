#include "settings.hpp"

#include "strata/error.hpp"

namespace localsgd {

using namespace strata;

const OptionSchema& schema() {
  static const OptionSchema kSchema{
      option::integer("size", std::nullopt, 1, 65536,
                      "Ranks along the axis: replicas that train apart between outer steps."),
      option::word("axis", "replica", "Name of the mesh axis."),
      option::integer("steps", 100, 1, 1 << 20, "Inner steps between two outer steps of a parameter."),
      option::number("outer_lr", 0.7, 0, 100,
                     "Learning rate of the outer steps; 1 without momentum averages the replicas."),
      option::number("outer_momentum", 0.9, 0, 0.9999, "Momentum of the outer steps; 0 keeps no momentum."),
      option::boolean("nesterov", true, "Use Nesterov momentum in outer steps."),
      option::integer("fragments", 1, 1, 65536,
                      "Groups of blocks that take their outer steps in turns, block i in group i modulo this number. "
                      "It divides the peak of the traffic."),
      option::boolean("overlap", false,
                      "Exchange outer gradients during the step after they were computed, and apply them at its end."),
      option::number("mixing", 0.5, 0, 1,
                     "With overlap: the share of a replica's own values that an outer step keeps."),
      option::word("outer_gradients", "f32",
                   "How outer gradients are exchanged: f32, or as 8- or 4-bit integers with one scale per block.",
                   {"f32", "int8", "int4"}),
      option::word("quantization", "on",
                   "Whether outer gradients are quantised: on (but not in f64 runs, so that they are exact) or "
                   "always.",
                   {"on", "always"})};
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
