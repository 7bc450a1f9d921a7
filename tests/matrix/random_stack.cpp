#include "matrix/random_stack.hpp"

#include <algorithm>
#include <utility>

#include "matrix/feature_pairs.hpp"
#include "random_choice.hpp"

namespace strata::testing {
namespace {

/// One model in kMisfits has sizes that axes need not divide, and one stack in kMisfits may have conflicts.
constexpr int kMisfits = 12;
/// Larger prime factors of the number of ranks go to axes that share the batch, if there are any.
constexpr int kLargestFactorAnywhere = 7;

class StackDraw {
 public:
  explicit StackDraw(std::uint64_t number) : choice_(number) {}

  Stack draw() {
    static const FeaturePairs kPairs;
    const bool may_conflict = choice_.below(kMisfits) == 0;
    const int ranks = 1 + choice_.below(kMostRanks);
    do {
      stack_ = {};
      choose_strategies();
      choose_options();
      deal_ranks(ranks);
      shuffle();
      choose_run();
    } while (!may_conflict && kPairs.has_conflict(stack_));
    return std::move(stack_);
  }

 private:
  void choose_strategies() {
    for (std::size_t row = 0; row < grammar().strategies.size(); ++row) {
      if (choice_.below(100) < grammar().strategies[row].percent) stack_.strategies.push_back(plain_strategy(row));
    }
  }

  void choose_options() {
    for (StrategyChoice& each : stack_.strategies) {
      const std::vector<OptionRow>& options = each.strategy().options;
      for (std::size_t i = 0; i < options.size(); ++i) {
        if (options[i].name == "size") continue;
        const std::size_t chosen = any(options[i].choices.size());
        const std::string& needs = options[i].choices[chosen].needs;
        if (needs.empty() || stack_.has(grammar().strategy(needs))) each.choices[i] = chosen;
      }
    }
  }

  /// Distributes the prime factors of the number of ranks over the axes. Choices that multiply ranks take their factor
  /// first.
  void deal_ranks(int ranks) {
    for (StrategyChoice& each : stack_.strategies) {
      if (ranks % each.ranks() != 0) {
        for (std::size_t i = 0; i < each.choices.size(); ++i) {
          if (each.strategy().options[i].choices[each.choices[i]].ranks > 1) each.choices[i] = 0;
        }
      }
      ranks /= each.ranks();
    }
    for (int factor = 2; ranks > 1; ++factor) {
      for (; ranks % factor == 0; ranks /= factor) give(factor);
    }
  }

  void give(int factor) {
    std::vector<StrategyChoice*> takers;
    for (StrategyChoice& each : stack_.strategies) {
      const OptionRow& size = each.strategy().options.front();
      const bool has_axis =
          size.name == "size" && (each.choices.front() + 1) * static_cast<std::size_t>(factor) <= size.choices.size();
      if (has_axis && (factor <= kLargestFactorAnywhere || each.strategy().splits_batch)) takers.push_back(&each);
    }
    if (takers.empty()) return;
    // The choices of a size start at one rank.
    std::size_t& size = takers[any(takers.size())]->choices.front();
    size = (size + 1) * static_cast<std::size_t>(factor) - 1;
  }

  void shuffle() {
    std::vector<StrategyChoice>& strategies = stack_.strategies;
    for (std::size_t i = strategies.size(); i > 1; --i) std::swap(strategies[i - 1], strategies[any(i)]);
  }

  void choose_run() {
    for (const OptionRow& option : grammar().run) stack_.run.push_back(any(option.choices.size()));
    std::size_t& micro_batches = stack_.run[Grammar::option(grammar().run, "batch.micro_batches")];
    while (micro_batches > 0 && stack_.global_batch() > kMostSequences) --micro_batches;
    const std::vector<std::size_t> fitting = fitting_sizes(stack_);
    const bool misfit = fitting.empty() || choice_.below(kMisfits) == 0;
    stack_.sizes = misfit ? any(grammar().sizes.size()) : fitting[any(fitting.size())];
  }

  std::size_t any(std::size_t count) { return static_cast<std::size_t>(choice_.below(static_cast<int>(count))); }

  RandomChoice choice_;
  Stack stack_;
};

}  // namespace

Stack random_stack(std::uint64_t number) { return StackDraw(number).draw(); }

}  // namespace strata::testing
