#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strata::testing {

/// \file
/// The grammar of generated stacks: one table of strategies, their options and the values of these. To prove a plugin
/// or an option in every combination, add its row to grammar.cpp.

struct Stack;
struct StrategyChoice;

/// One value of an option.
struct OptionChoice {
  /// The value in TOML.
  std::string toml;
  /// Factor by which the value multiplies the ranks of its strategy.
  int ranks = 1;
  /// Another strategy row that the value requires. Empty for none.
  std::string needs = {};
  /// If true, covering sets omit the value. Random stacks still have it.
  bool rare = false;
  /// Writes the value if it depends on the rest of the stack.
  std::string (*write)(const Stack& stack, const StrategyChoice& strategy) = nullptr;
  /// The same for an option of the run: writes it for `toml`. Empty: the stack's model has no such option.
  std::string (*write_for_run)(const Stack& stack, const std::string& toml) = nullptr;
};

struct OptionRow {
  std::string name;
  std::vector<OptionChoice> choices;
};

/// A field of the model that the ranks of a strategy must divide. If several strategies have the same field, their
/// product must divide it.
struct Divisor {
  std::string field;
  /// The number of ranks times this factor must divide the field.
  int multiple = 1;
};

/// A strategy that a stack may have. A plugin with several rows may occur several times in a stack.
struct StrategyRow {
  /// Such as "zero" or "outer ddp".
  std::string name;
  std::string plugin;
  /// Lines of TOML that every stack has, such as the axis if it is not the plugin's default.
  std::string fixed;
  /// True if its ranks share the batch.
  bool splits_batch = false;
  /// True if the strategy has the options bucket_mb and overlap, in which all strategies of a stack must agree.
  bool has_buckets = false;
  std::vector<Divisor> divides;
  std::vector<OptionRow> options;
  /// Approximate percentage of random stacks that have the strategy.
  int percent = 30;
};

/// Dimensions of a model that are consistent.
struct ModelSizes {
  int heads = 2;
  int embed = 16;
  int context = 8;
  int vocab = 16;

  [[nodiscard]] int field(const std::string& name) const;
};

/// Two features ("zero.stage=1", or all of a row: "dataparallel") that no stack can have together, because the host
/// must refuse it.
struct Conflict {
  std::string first;
  std::string second;
};

struct Grammar {
  /// Options that every stack has, by section and key, such as "model.layers" or "batch.micro". "batch.micro_batches"
  /// represents batch.global. Keys of "buckets" are options of every strategy with `has_buckets`.
  std::vector<OptionRow> run;
  std::vector<ModelSizes> sizes;
  std::vector<StrategyRow> strategies;
  std::vector<Conflict> conflicts;

  /// Position of a strategy row by name.
  [[nodiscard]] std::size_t strategy(const std::string& name) const;
  /// Position of an option of `rows` by name.
  [[nodiscard]] static std::size_t option(const std::vector<OptionRow>& rows, const std::string& name);
};

/// Largest number of ranks of a generated stack.
inline constexpr int kMostRanks = 16;
/// Largest number of sequences of a step, so that a stack is proven within about a second.
inline constexpr int kMostSequences = 32;

[[nodiscard]] const Grammar& grammar();

}  // namespace strata::testing
