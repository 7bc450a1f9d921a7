#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strata::testing {

/// \file
/// The grammar of generated stacks: one table of strategies, their options and the values that these may have. To have
/// a plugin or an option proven in every combination, add its row to grammar.cpp.

struct Stack;
struct StrategyChoice;

/// One value of an option.
struct OptionChoice {
  /// As TOML writes it.
  std::string toml;
  /// By how much it multiplies the ranks of its strategy.
  int ranks = 1;
  /// Another strategy row without which the value means nothing; empty for none.
  std::string needs = {};
  /// Left out of the pairs that a covering set holds; random stacks have it.
  bool rare = false;
  /// Writes the value where it depends on the rest of the stack.
  std::string (*write)(const Stack& stack, const StrategyChoice& strategy) = nullptr;
};

struct OptionRow {
  std::string name;
  std::vector<OptionChoice> choices;
};

/// A field of the model that the ranks of a strategy must divide, together with those of others that have the same.
struct Divisor {
  std::string field;
  /// By the number of ranks times this.
  int multiple = 1;
};

/// A strategy that a stack may have. A plugin may have several rows: a stack may then hold it several times.
struct StrategyRow {
  /// "zero", "outer ddp".
  std::string name;
  std::string plugin;
  /// Lines of TOML that every stack has: the axis, where it isn't the plugin's default.
  std::string fixed;
  /// True if its ranks share the batch.
  bool splits_batch = false;
  std::vector<Divisor> divides;
  std::vector<OptionRow> options;
  /// Of 100 random stacks, about as many have it.
  int percent = 30;
};

/// Dimensions of a model that fit each other.
struct ModelSizes {
  int heads = 2;
  int embed = 16;
  int context = 8;
  int vocab = 16;

  [[nodiscard]] int field(const std::string& name) const;
};

/// Two features ("zero.stage=1", or all of a row: "dataparallel") that no stack can have together, since the host must
/// refuse it.
struct Conflict {
  std::string first;
  std::string second;
};

struct Grammar {
  /// What every stack has, by section and key: "model.layers", "batch.micro". "batch.micro_batches" stands for
  /// batch.global.
  std::vector<OptionRow> run;
  std::vector<ModelSizes> sizes;
  std::vector<StrategyRow> strategies;
  std::vector<Conflict> conflicts;

  /// Position of a strategy row by name.
  [[nodiscard]] std::size_t strategy(const std::string& name) const;
  /// Position of an option of `rows` by name.
  [[nodiscard]] static std::size_t option(const std::vector<OptionRow>& rows, const std::string& name);
};

/// Most ranks that a generated stack has.
inline constexpr int kMostRanks = 16;
/// Most sequences of a step, so that proving a stack takes less than a second or two.
inline constexpr int kMostSequences = 32;

[[nodiscard]] const Grammar& grammar();

}  // namespace strata::testing
