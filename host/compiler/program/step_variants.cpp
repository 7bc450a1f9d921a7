#include "compiler/program/step_variants.hpp"

#include <map>
#include <numeric>
#include <set>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Largest period. The variants are found by visiting every step of it.
constexpr std::int64_t kLongestPeriod = std::int64_t{1} << 20;

std::int64_t common_period(const std::set<StepCondition>& conditions) {
  std::int64_t period = 1;
  for (const StepCondition& each : conditions) {
    if (each.period <= kLongestPeriod) period = std::lcm(period, each.period);
    if (each.period > kLongestPeriod || period > kLongestPeriod) {
      throw ConfigurationError("the steps of the strategies repeat only after more than " +
                               std::to_string(kLongestPeriod) +
                               " steps; give strategies shorter periods, or periods that divide each other");
    }
  }
  return period;
}

}  // namespace

std::string StepVariants::describe(const StepVariant& variant) const {
  if (variants.size() < 2) return "";
  if (variant.count == 1) {
    return "steps with step % " + std::to_string(period) + " == " + std::to_string(variant.step);
  }
  return std::to_string(variant.count) + " of " + std::to_string(period) + " steps, such as step " +
         std::to_string(variant.step);
}

std::vector<StepCondition> step_conditions(const Program& program) {
  std::set<StepCondition> conditions;
  for (const Task& task : program.tasks) {
    for (const Instruction& instruction : task.instructions) {
      if (!instruction.when.is_always()) conditions.insert(instruction.when);
    }
  }
  return {conditions.begin(), conditions.end()};
}

std::vector<bool> holding(const std::vector<StepCondition>& conditions, std::uint64_t step) {
  std::vector<bool> active;
  active.reserve(conditions.size());
  for (const StepCondition& each : conditions) active.push_back(each.holds(step));
  return active;
}

StepVariants step_variants(const std::vector<const Program*>& programs) {
  std::set<StepCondition> distinct;
  for (const Program* program : programs) {
    for (const StepCondition& each : step_conditions(*program)) distinct.insert(each);
  }
  const std::vector<StepCondition> conditions(distinct.begin(), distinct.end());
  StepVariants found;
  found.period = common_period(distinct);
  std::map<std::vector<bool>, std::size_t> known;
  for (std::uint64_t step = 0; step < static_cast<std::uint64_t>(found.period); ++step) {
    const auto [place, added] = known.try_emplace(holding(conditions, step), found.variants.size());
    if (added) {
      found.variants.push_back({step, 1});
    } else {
      ++found.variants[place->second].count;
    }
  }
  return found;
}

StepVariants step_variants(const std::vector<Program>& programs) {
  std::vector<const Program*> pointers;
  for (const Program& program : programs) pointers.push_back(&program);
  return step_variants(pointers);
}

StepVariants step_variants(const Program& program) { return step_variants(std::vector<const Program*>{&program}); }

}  // namespace strata::host
