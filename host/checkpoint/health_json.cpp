#include "checkpoint/health_json.hpp"

#include <string>
#include <utility>
#include <vector>

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

namespace {

std::vector<double> numbers(const JsonValue& list) {
  std::vector<double> values;
  for (const JsonValue& each : list.elements()) values.push_back(each.number());
  return values;
}

std::int64_t count(const JsonValue& value) {
  const auto count = value.integer<std::int64_t>();
  if (count < 0) value.refuse("a number that is not negative");
  return count;
}

}  // namespace

HealthState health_from_json(const JsonValue& value) {
  HealthState state{.losses = numbers(value.at("losses")),
                    .norms = numbers(value.at("grad_norms")),
                    .skips_in_a_row = count(value.at("skips_in_a_row")),
                    .rewinds = count(value.at("rewinds"))};
  if (state.losses.size() != state.norms.size()) {
    value.fail("found " + std::to_string(state.losses.size()) + " losses and " + std::to_string(state.norms.size()) +
               " grad_norms; accepted: as many of both");
  }
  for (const JsonValue& each : value.at("left_out_samples").elements()) {
    state.left_out.push_back({each.element(0).integer<std::uint64_t>(), each.element(1).integer<std::uint64_t>()});
    if (state.left_out.back().begin >= state.left_out.back().end) each.fail("is an empty range of samples");
  }
  if (const auto step = value.find("rewound_to")) state.rewound_to = step->integer<std::uint64_t>();
  return state;
}

}  // namespace strata::host
