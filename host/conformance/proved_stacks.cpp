#include "conformance/proved_stacks.hpp"

#include "strata/tensor.hpp"

namespace strata::host {

std::string joined_lines(const std::vector<std::string>& lines) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> shown(lines.begin(),
                                 lines.begin() + static_cast<std::ptrdiff_t>(std::min(lines.size(), kMost)));
  if (lines.size() > kMost) shown.push_back("and " + std::to_string(lines.size() - kMost) + " more");
  return join(shown, "; ");
}

void ProvedStacks::add(const std::string& description, const StackProof& proof) {
  switch (proof.verdict) {
    case StackVerdict::holds:
      ++held_;
      for (const std::string& each : proof.faults.amplified) amplified_.push_back(description + ": " + each);
      return;
    case StackVerdict::refused:
      refused_.push_back(description + " (" + proof.message + ")");
      return;
    case StackVerdict::fails:
      throw CheckFailed(description + ": " + joined_lines(proof.findings()));
  }
}

std::string ProvedStacks::summary() const {
  if (held_ == 0 && refused_.empty()) throw CheckSkipped("there is nothing to vary");
  std::string text = std::to_string(held_) + (held_ == 1 ? " stack holds" : " stacks hold");
  if (!refused_.empty()) text += ", " + std::to_string(refused_.size()) + " refused: " + joined_lines(refused_);
  if (!amplified_.empty()) text += "; " + joined_lines(amplified_);
  if (held_ == 0) {
    throw CheckFailed("no stack holds; " + text +
                      (has_configuration_ ? "" : ". A run in which one holds can be given with --config"));
  }
  return text;
}

std::string prove_with_every_strategy(Subject& subject, bool variants) {
  ProvedStacks proved(subject);
  PluginRegistry& plugins = subject.plugins();
  StackProver prover = subject.prover(kMostStepsOfMany);
  const std::vector<CheckedRun> runs = subject.runs();
  const auto prove = [&](const PluginSection& strategy, const std::string& what) {
    for (const CheckedRun& run : runs) {
      RunConfiguration stack = run.configuration;
      stack.strategies = {strategy};
      proved.add(run.where + "with strategy '" + strategy.plugin + "'" + what, prover.prove(stack));
    }
  };
  for (const PluginSection& strategy : installed_strategies(plugins)) {
    prove(strategy, "");
    if (!variants) continue;
    const OptionSchema schema = plugins.load<StrategyFactory>(strategy.plugin).options();
    for (const OptionVariants& varied : variants_of(schema, Options(schema, strategy.options))) {
      if (!std::holds_alternative<std::int64_t>(varied.values.front())) continue;
      for (const OptionValue& value : varied.values) {
        PluginSection other = strategy;
        other.options[varied.name] = value;
        prove(other, ", " + varied.name + " = " + to_string(value));
      }
    }
  }
  return proved.summary();
}

}  // namespace strata::host
