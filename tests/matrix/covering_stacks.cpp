#include "matrix/covering_stacks.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace strata::testing {
namespace {

/// Number of stacks that are tried for a pair before it is given up.
constexpr int kAttempts = 40;
/// The first of them are filled with other strategies and with the choices that cover the most pairs. The later ones
/// have only what the pair needs, with any options.
constexpr int kFullAttempts = 12;

/// Builds one stack around a pair.
class StackDraft {
 public:
  StackDraft(const FeaturePairs& pairs, RandomChoice& choice, bool full)
      : pairs_(pairs), choice_(choice), full_(full), stack_(plain_stack()) {}

  Stack build(const FeaturePairs::Pair& target) {
    run_chosen_.resize(stack_.run.size());
    for (const std::size_t feature : {target.first, target.second}) pin(feature);
    if (full_) add_strategies();
    shuffle(stack_.strategies, strategies_chosen_);
    put_in_order(target);
    for (std::size_t i = 0; i < stack_.strategies.size(); ++i) choose_strategy_options(i);
    choose_run_options();
    stack_.sizes = smallest_sizes();
    return stack_;
  }

 private:
  /// Random stacks draw all sizes. Here the smallest that fit save most of the time.
  [[nodiscard]] std::size_t smallest_sizes() const {
    const std::vector<std::size_t> fitting = fitting_sizes(stack_);
    const auto elements = [](std::size_t index) {
      const ModelSizes& sizes = grammar().sizes[index];
      return sizes.embed * sizes.context;
    };
    const auto smallest = std::min_element(fitting.begin(), fitting.end(),
                                           [&](std::size_t a, std::size_t b) { return elements(a) < elements(b); });
    return smallest == fitting.end() ? 0 : *smallest;
  }

  void pin(std::size_t feature) {
    const Feature& pinned = pairs_.features()[feature];
    if (pinned.kind == Feature::Kind::run_option) {
      stack_.run[pinned.option] = pinned.choice;
      run_chosen_[pinned.option] = true;
      chosen_.push_back(feature);
      return;
    }
    const std::size_t at = add(pinned.row);
    if (pinned.kind != Feature::Kind::strategy_option) return;
    stack_.strategies[at].choices[pinned.option] = pinned.choice;
    strategies_chosen_[at][pinned.option] = true;
    chosen_.push_back(feature);
    const std::string& needs = grammar().strategies[pinned.row].options[pinned.option].choices[pinned.choice].needs;
    if (!needs.empty()) add(grammar().strategy(needs));
  }

  /// Adds a strategy. \return its position.
  std::size_t add(std::size_t row) {
    for (std::size_t i = 0; i < stack_.strategies.size(); ++i) {
      if (stack_.strategies[i].row == row) return i;
    }
    stack_.strategies.push_back(plain_strategy(row));
    strategies_chosen_.emplace_back(stack_.strategies.back().choices.size());
    return stack_.strategies.size() - 1;
  }

  /// Adds all strategies that conflict with none of the stack.
  void add_strategies() {
    std::vector<std::size_t> rows(grammar().strategies.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    std::vector<std::size_t> unused(rows.size());
    shuffle(rows, unused);
    for (const std::size_t row : rows) {
      const bool conflicts = std::any_of(stack_.strategies.begin(), stack_.strategies.end(),
                                         [&](const StrategyChoice& each) { return conflict(each.row, row); });
      // Rows that are rare in random stacks are added only if the pair needs them.
      if (!conflicts && choice_.below(100) < 4 * grammar().strategies[row].percent) add(row);
    }
  }

  static bool conflict(std::size_t a, std::size_t b) {
    const std::string& first = grammar().strategies[a].name;
    const std::string& second = grammar().strategies[b].name;
    return std::any_of(grammar().conflicts.begin(), grammar().conflicts.end(), [&](const Conflict& each) {
      return (each.first == first && each.second == second) || (each.first == second && each.second == first);
    });
  }

  void put_in_order(const FeaturePairs::Pair& target) {
    const auto position = [&](std::size_t feature) { return add(pairs_.features()[feature].row); };
    for (const auto& [outside, inside] :
         std::array{std::pair{target.first, target.second}, std::pair{target.second, target.first}}) {
      if (pairs_.features()[outside].kind != Feature::Kind::outside) continue;
      const std::size_t outer = position(outside);
      const std::size_t inner = position(inside);
      if (outer < inner) continue;
      std::swap(stack_.strategies[outer], stack_.strategies[inner]);
      std::swap(strategies_chosen_[outer], strategies_chosen_[inner]);
    }
  }

  void choose_strategy_options(std::size_t at) {
    StrategyChoice& strategy = stack_.strategies[at];
    const std::vector<OptionRow>& options = strategy.strategy().options;
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (strategies_chosen_[at][i]) continue;
      strategies_chosen_[at][i] = true;
      choose(options[i].choices, strategy.choices[i],
             [&](std::size_t choice) { return pairs_.strategy_feature(strategy.row, i, choice); });
    }
  }

  void choose_run_options() {
    for (std::size_t i = 0; i < stack_.run.size(); ++i) {
      if (run_chosen_[i]) continue;
      choose(grammar().run[i].choices, stack_.run[i],
             [&](std::size_t choice) { return pairs_.run_feature(i, choice); });
    }
  }

  /// Sets `place` to the choice that covers the most open pairs together with the choices so far, or to any choice.
  template <class FeatureOf>
  void choose(const std::vector<OptionChoice>& choices, std::size_t& place, const FeatureOf& feature_of) {
    std::vector<std::pair<int, std::size_t>> possible;
    for (std::size_t choice = 0; choice < choices.size(); ++choice) {
      const auto feature = feature_of(choice);
      if (!feature || !is_possible(*feature)) continue;
      const std::string& needs = choices[choice].needs;
      if (!needs.empty() && !stack_.has(grammar().strategy(needs))) continue;
      place = choice;
      if (stack_.ranks() > kMostRanks || stack_.global_batch() > kMostSequences) continue;
      possible.emplace_back(full_ ? gain(*feature) : 0, choice);
    }
    place = 0;
    if (possible.empty()) return;
    const int best = std::max_element(possible.begin(), possible.end())->first;
    std::erase_if(possible, [best](const auto& each) { return each.first < best; });
    place = possible[any(possible.size())].second;
    chosen_.push_back(*feature_of(place));
  }

  [[nodiscard]] bool is_possible(std::size_t feature) const {
    return std::none_of(chosen_.begin(), chosen_.end(),
                        [&](std::size_t other) { return pairs_.conflict(feature, other); });
  }

  [[nodiscard]] int gain(std::size_t feature) const {
    return static_cast<int>(std::count_if(chosen_.begin(), chosen_.end(),
                                          [&](std::size_t other) { return pairs_.is_open(feature, other); }));
  }

  template <class A, class B>
  void shuffle(std::vector<A>& values, std::vector<B>& beside) {
    for (std::size_t i = values.size(); i > 1; --i) {
      const std::size_t other = any(i);
      std::swap(values[i - 1], values[other]);
      std::swap(beside[i - 1], beside[other]);
    }
  }

  std::size_t any(std::size_t count) { return static_cast<std::size_t>(choice_.below(static_cast<int>(count))); }

  const FeaturePairs& pairs_;
  RandomChoice& choice_;
  bool full_;
  Stack stack_;
  std::vector<std::vector<bool>> strategies_chosen_;
  std::vector<bool> run_chosen_;
  /// Features of the stack so far.
  std::vector<std::size_t> chosen_;
};

}  // namespace

std::optional<Stack> CoveringStacks::next() {
  const auto open = pairs_.first_open();
  if (!open) return std::nullopt;
  if (*open != target_) refusals_ = 0;
  target_ = *open;
  stack_ = StackDraft(pairs_, choice_, refusals_ < kFullAttempts).build(target_);
  return stack_;
}

void CoveringStacks::accept() {
  pairs_.cover(stack_);
  if (pairs_.is_open(target_.first, target_.second)) {
    throw std::logic_error("the stack for " + pairs_.name(target_) + " does not have them");
  }
}

void CoveringStacks::refuse(const std::string& message) {
  if (++refusals_ < kAttempts) return;
  given_up_.push_back(pairs_.name(target_) + ": " + message);
  pairs_.give_up(target_);
  refusals_ = 0;
}

}  // namespace strata::testing
