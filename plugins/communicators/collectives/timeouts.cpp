#include "collectives/timeouts.hpp"

#include <string>

namespace strata::communicators {
namespace {

constexpr const char* kTimeout = "timeout";
constexpr const char* kStartTimeout = "start_timeout";

OptionSpecification seconds(const std::string& name, double default_value, const std::string& documentation,
                            OptionRole role = OptionRole::none) {
  return {.name = name,
          .type = OptionType::number,
          .default_value = default_value,
          .documentation = documentation,
          .minimum = 0.01,
          .maximum = 86400.0,
          .role = role};
}

}  // namespace

OptionSpecification timeout_option() {
  return seconds(kTimeout, Timeouts{}.communication,
                 "Seconds that a rank waits for its peers in a communication before it gives up.", OptionRole::timeout);
}

OptionSpecification start_timeout_option() {
  return seconds(kStartTimeout, Timeouts{}.start,
                 "Seconds in which the processes of all ranks must have come together.");
}

Timeouts read_timeouts(const Options& options) { return {options.number(kTimeout), options.number(kStartTimeout)}; }

}  // namespace strata::communicators
