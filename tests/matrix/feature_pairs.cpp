#include "matrix/feature_pairs.hpp"

#include <algorithm>

namespace strata::testing {
namespace {

/// True if `part` names the feature, or the strategy of the feature.
bool is_of(const Feature& feature, const std::string& part) {
  return feature.name == part || feature.name.starts_with(part + ".");
}

bool declared_conflict(const Feature& a, const Feature& b) {
  return std::any_of(grammar().conflicts.begin(), grammar().conflicts.end(), [&](const Conflict& conflict) {
    return (is_of(a, conflict.first) && is_of(b, conflict.second)) ||
           (is_of(b, conflict.first) && is_of(a, conflict.second));
  });
}

}  // namespace

FeaturePairs::FeaturePairs() {
  add_features();
  states_.resize(features_.size() * features_.size(), State::none);
  open_pairs();
}

void FeaturePairs::add_features() {
  const auto add = [&](Feature::Kind kind, std::size_t row, const std::vector<OptionRow>& options,
                       const std::string& prefix) {
    for (std::size_t option = 0; option < options.size(); ++option) {
      const std::vector<OptionChoice>& choices = options[option].choices;
      for (std::size_t choice = 0; choice < choices.size(); ++choice) {
        if (choices[choice].rare) continue;
        features_.push_back({kind, row, option, choice, prefix + options[option].name + "=" + choices[choice].toml});
      }
    }
  };
  add(Feature::Kind::run_option, 0, grammar().run, "");
  for (std::size_t row = 0; row < grammar().strategies.size(); ++row) {
    const StrategyRow& strategy = grammar().strategies[row];
    features_.push_back({Feature::Kind::outside, row, 0, 0, strategy.name + ".outside"});
    features_.push_back({Feature::Kind::inside, row, 0, 0, strategy.name + ".inside"});
    add(Feature::Kind::strategy_option, row, strategy.options, strategy.name + ".");
  }
}

void FeaturePairs::open_pairs() {
  for (std::size_t a = 0; a < features_.size(); ++a) {
    for (std::size_t b = a + 1; b < features_.size(); ++b) {
      if (!can_meet(features_[a], features_[b])) continue;
      set_state(a, b, declared_conflict(features_[a], features_[b]) ? State::conflict : State::open);
    }
  }
}

bool FeaturePairs::can_meet(const Feature& a, const Feature& b) const {
  const auto is_place = [](const Feature& each) {
    return each.kind == Feature::Kind::outside || each.kind == Feature::Kind::inside;
  };
  if (is_place(a) || is_place(b)) return is_place(a) && is_place(b) && a.kind != b.kind && a.row != b.row;
  return a.kind != b.kind || a.row != b.row || a.option != b.option;
}

void FeaturePairs::set_state(std::size_t a, std::size_t b, State state) {
  states_[a * features_.size() + b] = state;
  states_[b * features_.size() + a] = state;
}

std::optional<std::size_t> FeaturePairs::run_feature(std::size_t option, std::size_t choice) const {
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const Feature& each = features_[i];
    if (each.kind == Feature::Kind::run_option && each.option == option && each.choice == choice) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> FeaturePairs::strategy_feature(std::size_t row, std::size_t option,
                                                          std::size_t choice) const {
  for (std::size_t i = 0; i < features_.size(); ++i) {
    const Feature& each = features_[i];
    if (each.kind == Feature::Kind::strategy_option && each.row == row && each.option == option &&
        each.choice == choice) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<FeaturePairs::Pair> FeaturePairs::first_open() const {
  // Pairs of the last strategies come first. The run's options are then covered along the way.
  for (std::size_t a = features_.size(); a-- > 0;) {
    for (std::size_t b = a; b-- > 0;) {
      if (is_open(a, b)) return Pair{b, a};
    }
  }
  return std::nullopt;
}

std::size_t FeaturePairs::count_covered() const {
  return static_cast<std::size_t>(std::count(states_.begin(), states_.end(), State::covered)) / 2;
}

std::vector<FeaturePairs::Pair> FeaturePairs::pairs(const Stack& stack) const {
  std::vector<std::size_t> chosen;
  const auto add = [&](const std::optional<std::size_t>& feature) {
    if (feature) chosen.push_back(*feature);
  };
  for (std::size_t i = 0; i < stack.run.size(); ++i) add(run_feature(i, stack.run[i]));
  for (const StrategyChoice& each : stack.strategies) {
    for (std::size_t i = 0; i < each.choices.size(); ++i) add(strategy_feature(each.row, i, each.choices[i]));
  }
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    for (std::size_t j = i + 1; j < chosen.size(); ++j) pairs.push_back({chosen[i], chosen[j]});
  }
  const auto place = [&](Feature::Kind kind, std::size_t row) {
    const auto found = std::find_if(features_.begin(), features_.end(),
                                    [&](const Feature& each) { return each.kind == kind && each.row == row; });
    return static_cast<std::size_t>(found - features_.begin());
  };
  for (std::size_t i = 0; i < stack.strategies.size(); ++i) {
    for (std::size_t j = i + 1; j < stack.strategies.size(); ++j) {
      pairs.push_back({place(Feature::Kind::outside, stack.strategies[i].row),
                       place(Feature::Kind::inside, stack.strategies[j].row)});
    }
  }
  return pairs;
}

bool FeaturePairs::has_conflict(const Stack& stack) const {
  const std::vector<Pair> all = pairs(stack);
  return std::any_of(all.begin(), all.end(), [&](const Pair& pair) { return conflict(pair.first, pair.second); });
}

void FeaturePairs::cover(const Stack& stack) {
  for (const Pair& pair : pairs(stack)) set_state(pair.first, pair.second, State::covered);
}

void FeaturePairs::give_up(const Pair& pair) { set_state(pair.first, pair.second, State::given_up); }

std::string FeaturePairs::name(const Pair& pair) const {
  return features_[pair.first].name + " with " + features_[pair.second].name;
}

}  // namespace strata::testing
