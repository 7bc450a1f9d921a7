#include "settings.hpp"

#include "strata/error.hpp"

namespace compress {

using namespace strata;

namespace {

constexpr std::int64_t kRank = 4;
constexpr double kDensity = 0.01;

/// The other method would ignore the option.
OptionError misplaced(const std::string& option, const std::string& found, const std::string& method) {
  return {option, "found " + found + " beside method = \"" + method + "\"; accepted: only with the other method"};
}

}  // namespace

const OptionSchema& schema() {
  static const OptionSchema kSchema{
      option::integer("size", std::nullopt, 1, 65536,
                      "Ranks along the axis: workers that exchange compressed gradients."),
      option::word("axis", "compressed", "Name of the mesh axis."),
      option::word("method", "powersgd",
                   "powersgd exchanges two factors of low rank for each matrix, topk its largest elements.",
                   {"powersgd", "topk"}),
      option::integer("rank", kRank, 1, 1024, ""),
      option::number("density", kDensity, 1e-6, 1,
                     "topk: the share of the elements of each rank's piece of a parameter that is exchanged."),
      {.name = "smallest",
       .type = OptionType::integer,
       .default_value = OptionValue(std::int64_t{0}),
       .documentation = "Gradients of parameters with fewer elements are summed exactly.",
       .minimum = 0}};
  return kSchema;
}

Settings read_settings(const Options& options) {
  Settings settings;
  settings.axis = options.word("axis");
  settings.size = static_cast<int>(options.integer("size"));
  settings.method = options.word("method") == "topk" ? Method::top_k : Method::power_sgd;
  settings.rank = options.integer("rank");
  settings.density = options.number("density");
  settings.smallest = options.integer("smallest");
  const std::string& method = options.word("method");
  if (settings.method == Method::top_k && settings.rank != kRank) {
    throw misplaced("rank", std::to_string(settings.rank), method);
  }
  if (settings.method == Method::power_sgd && settings.density != kDensity) {
    throw misplaced("density", to_string(OptionValue(settings.density)), method);
  }
  return settings;
}

}  // namespace compress
