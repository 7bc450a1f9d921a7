#include "train/checkpoint/health_json.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "strata/error.hpp"
#include "train/checkpoint/json_text.hpp"

namespace strata::host {

using nlohmann::json;

json health_json(const HealthState& state) {
  json left_out = json::array();
  for (const SampleRange& each : state.left_out) left_out.push_back({each.begin, each.end});
  json value = {{"losses", state.losses},
                {"grad_norms", state.norms},
                {"skips_in_a_row", state.skips_in_a_row},
                {"rewinds", state.rewinds},
                {"left_out_samples", std::move(left_out)}};
  if (state.rewound_to) value["rewound_to"] = *state.rewound_to;
  return value;
}

HealthState health_from_json(const json& value) {
  HealthState state{.losses = value.at("losses").get<std::vector<double>>(),
                    .norms = value.at("grad_norms").get<std::vector<double>>(),
                    .skips_in_a_row = integer<std::int64_t>(value.at("skips_in_a_row")),
                    .rewinds = integer<std::int64_t>(value.at("rewinds"))};
  bool is_possible = state.losses.size() == state.norms.size() && state.skips_in_a_row >= 0 && state.rewinds >= 0;
  for (const std::vector<double>* values : {&state.losses, &state.norms}) {
    is_possible = is_possible && std::all_of(values->begin(), values->end(), [](double x) { return std::isfinite(x); });
  }
  for (const json& each : value.at("left_out_samples")) {
    state.left_out.push_back({integer<std::uint64_t>(each.at(0)), integer<std::uint64_t>(each.at(1))});
    is_possible = is_possible && state.left_out.back().begin < state.left_out.back().end;
  }
  if (value.contains("rewound_to")) state.rewound_to = integer<std::uint64_t>(value["rewound_to"]);
  if (!is_possible) throw RuntimeError("the state of its health rules is impossible");
  return state;
}

}  // namespace strata::host
