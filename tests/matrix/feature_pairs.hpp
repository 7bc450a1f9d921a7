#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "matrix/stack.hpp"

namespace strata::testing {

/// A property of a stack: an option with one of its values, or a strategy's place in the mesh relative to another
/// strategy.
struct Feature {
  enum class Kind { run_option, strategy_option, outside, inside };

  Kind kind = Kind::run_option;
  /// The strategy row of a strategy's feature.
  std::size_t row = 0;
  std::size_t option = 0;
  std::size_t choice = 0;
  /// Such as "model.layers=2", "zero.stage=1" or "zero.outside".
  std::string name;
};

/// All pairs of features that a stack can have, and which of them some stack has had: every value of every option with
/// every value of every other option, and every strategy outside every other strategy.
class FeaturePairs {
 public:
  using Pair = std::pair<std::size_t, std::size_t>;

  FeaturePairs();

  [[nodiscard]] const std::vector<Feature>& features() const { return features_; }
  /// The feature of a choice. Empty for rare choices.
  [[nodiscard]] std::optional<std::size_t> run_feature(std::size_t option, std::size_t choice) const;
  [[nodiscard]] std::optional<std::size_t> strategy_feature(std::size_t row, std::size_t option,
                                                            std::size_t choice) const;

  /// True if the grammar says that no stack has both.
  [[nodiscard]] bool conflict(std::size_t a, std::size_t b) const { return state(a, b) == State::conflict; }
  [[nodiscard]] bool has_conflict(const Stack& stack) const;
  [[nodiscard]] bool is_open(std::size_t a, std::size_t b) const { return state(a, b) == State::open; }
  [[nodiscard]] std::optional<Pair> first_open() const;
  [[nodiscard]] std::size_t count_covered() const;

  /// Marks every pair of the stack as covered.
  void cover(const Stack& stack);
  void give_up(const Pair& pair);
  [[nodiscard]] std::string name(const Pair& pair) const;

 private:
  enum class State { none, conflict, open, covered, given_up };

  void add_features();
  void open_pairs();
  [[nodiscard]] bool can_meet(const Feature& a, const Feature& b) const;
  [[nodiscard]] std::vector<Pair> pairs(const Stack& stack) const;
  [[nodiscard]] State state(std::size_t a, std::size_t b) const { return states_[a * features_.size() + b]; }
  void set_state(std::size_t a, std::size_t b, State state);

  std::vector<Feature> features_;
  std::vector<State> states_;
};

}  // namespace strata::testing
