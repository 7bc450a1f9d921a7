#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "strata/export.hpp"

namespace strata {

/// The value of an option. A list holds numbers or words.
using OptionValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<double>, std::vector<std::string>>;

/// The type of an option's value, in the order of OptionValue's alternatives.
enum class OptionType : std::uint8_t { boolean, integer, number, word, numbers, words };

STRATA_API std::string_view to_string(OptionType type);
/// The value as TOML text.
STRATA_API std::string to_string(const OptionValue& value);

/// What an option means to the host, which finds it by its role and never by its name. In brackets: the option's type.
enum class OptionRole : std::uint8_t {
  none,
  axis_name,          ///< of a strategy: the name of its mesh axis (word)
  axis_size,          ///< of a strategy: the ranks along its axis (integer), which run.shrink may lower
  period,             ///< of a strategy: the steps between two exchanges (integer)
  compute_type,       ///< of a strategy: the element type in which it makes the model compute, by its name (word)
  ranks_per_process,  ///< of a communicator: the ranks that each process runs as threads (integer)
  timeout,            ///< of a communicator: the seconds that a rank waits for its peers (number)
  tokenizer,          ///< of a dataset: the path of the tokenizer that made the tokens; empty: none (word)
  training_data,      ///< of a dataset: the path of its file (word), or those of its files (words)
  validation_data,    ///< of a dataset: likewise, of data that is only evaluated
  validation_share,   ///< of a dataset: the share of the training data that is only evaluated (number)
  data_weights,       ///< of a dataset: a number for each of several files of training data (numbers)
  text_begin,         ///< of a dataset: the token before every text of a decoder, and the padding (integer)
  text_end,           ///< of a dataset: the token that ends the texts of encoder and decoder (integer)
  chunk_blocks        ///< of a strategy: the number of blocks of each chunk in order, as in "3,4,4,3" (word)
};

/// One option: the only source of its type, default, range, help text and error messages.
struct OptionSpecification {
  std::string name;
  OptionType type = OptionType::integer;
  /// The default value. Empty: the option is required.
  std::optional<OptionValue> default_value = {};
  /// One sentence for help and the reference page.
  std::string documentation = {};
  /// Inclusive range of a number, or of each number of a list.
  std::optional<double> minimum = {};
  std::optional<double> maximum = {};
  /// Accepted words. Empty: every word is accepted.
  std::vector<std::string> choices = {};
  /// True if ranks of a run may have different values, because the value is of one machine: a device's number, a
  /// network interface, the path of data whose content is compared. All other values must be equal.
  bool may_differ = false;
  OptionRole role = OptionRole::none;
};

/// Short forms for the options of a schema. `otherwise` is the default value; without one (std::nullopt) the option is
/// required. Ranges are inclusive. Example: option::integer("layers", std::nullopt, 1, 65536, "Number of layers.").
namespace option {

inline OptionSpecification boolean(std::string name, bool otherwise, std::string documentation) {
  return {std::move(name), OptionType::boolean, OptionValue(otherwise), std::move(documentation)};
}

inline OptionSpecification integer(std::string name, std::optional<std::int64_t> otherwise, double minimum,
                                   double maximum, std::string documentation) {
  return {std::move(name), OptionType::integer, otherwise, std::move(documentation), minimum, maximum};
}

inline OptionSpecification number(std::string name, std::optional<double> otherwise, double minimum, double maximum,
                                  std::string documentation) {
  return {std::move(name), OptionType::number, otherwise, std::move(documentation), minimum, maximum};
}

/// `choices`: the accepted words. Empty: every word.
inline OptionSpecification word(std::string name, std::optional<std::string> otherwise, std::string documentation,
                                std::vector<std::string> choices = {}) {
  return {.name = std::move(name),
          .type = OptionType::word,
          .default_value = std::move(otherwise),
          .documentation = std::move(documentation),
          .choices = std::move(choices)};
}

/// A list of words, by default none.
inline OptionSpecification words(std::string name, std::string documentation) {
  return {std::move(name), OptionType::words, OptionValue(std::vector<std::string>{}), std::move(documentation)};
}

/// The option with a meaning to the host.
inline OptionSpecification with_role(OptionRole role, const OptionSpecification& option) {
  OptionSpecification result = option;
  result.role = role;
  return result;
}

/// The required option `size` of a strategy that adds an axis.
inline OptionSpecification axis_size(std::string documentation) {
  OptionSpecification size = integer("size", std::nullopt, 1, 65536, std::move(documentation));
  size.role = OptionRole::axis_size;
  return size;
}

/// The option `axis` of such a strategy.
inline OptionSpecification axis_name(std::string otherwise) {
  OptionSpecification name = word("axis", std::move(otherwise), "Name of the mesh axis.");
  name.role = OptionRole::axis_name;
  return name;
}

}  // namespace option

/// The accepted values in words, for messages and help: "an integer of at least 1", "one of \"adamw\", \"sgd\"".
STRATA_API std::string accepted_values(const OptionSpecification& option);

/// All options of a plugin or of a section of the configuration, in the order of the help text.
class STRATA_API OptionSchema {
 public:
  OptionSchema() = default;
  OptionSchema(std::initializer_list<OptionSpecification> options) : options_(options) {}
  explicit OptionSchema(std::vector<OptionSpecification> options) : options_(std::move(options)) {}

  [[nodiscard]] const std::vector<OptionSpecification>& options() const { return options_; }
  /// The option named `name`, or null. The schema owns it.
  [[nodiscard]] const OptionSpecification* find(const std::string& name) const;
  /// The first option of that role and type, or null. The schema owns it.
  [[nodiscard]] const OptionSpecification* find(OptionRole role, OptionType type) const;

  /// Checks type, range and choices of `value`. An integer is accepted as a number. \return the value in the option's
  /// type. \throws ConfigurationError that names the found value and the accepted ones. The message has no file and
  /// line; the caller adds them.
  [[nodiscard]] OptionValue checked(const OptionSpecification& option, OptionValue value) const;

 private:
  std::vector<OptionSpecification> options_;
};

/// Checked values of the options of a schema.
class STRATA_API Options {
 public:
  Options() = default;
  explicit Options(std::map<std::string, OptionValue> values) : values_(std::move(values)) {}
  /// All defaults of `schema`, overridden by `given`. \throws ConfigurationError for unknown, missing or bad values.
  Options(const OptionSchema& schema, const std::map<std::string, OptionValue>& given);

  /// The value of the option `name`. \throws ConfigurationError if the option is missing or has another type.
  [[nodiscard]] bool boolean(const std::string& name) const;
  [[nodiscard]] std::int64_t integer(const std::string& name) const;
  [[nodiscard]] double number(const std::string& name) const;
  [[nodiscard]] const std::string& word(const std::string& name) const;
  [[nodiscard]] const std::vector<double>& numbers(const std::string& name) const;
  [[nodiscard]] const std::vector<std::string>& words(const std::string& name) const;

  void set(const std::string& name, OptionValue value) { values_[name] = std::move(value); }
  [[nodiscard]] const std::map<std::string, OptionValue>& values() const { return values_; }

 private:
  std::map<std::string, OptionValue> values_;
};

/// The candidate with the smallest edit distance to `word`. Empty if no candidate is near.
STRATA_API std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace strata
