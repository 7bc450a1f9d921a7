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

/// The value of an option. Lists are of numbers or of words.
using OptionValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<double>, std::vector<std::string>>;

enum class OptionType : std::uint8_t { boolean, integer, number, word, numbers, words };

STRATA_API std::string_view to_string(OptionType type);
/// As TOML would write it.
STRATA_API std::string to_string(const OptionValue& value);

/// One option: the single source of its type, default, range, help text and error messages.
struct OptionSpecification {
  std::string name;
  OptionType type = OptionType::integer;
  /// Empty: the option is required.
  std::optional<OptionValue> default_value = {};
  /// One sentence.
  std::string documentation = {};
  /// Inclusive range of a number (of each number of a list).
  std::optional<double> minimum = {};
  std::optional<double> maximum = {};
  /// Accepted words; empty for any.
  std::vector<std::string> choices = {};
};

/// What an option accepts, for messages and help: "an integer of at least 1", "one of \"adamw\", \"sgd\"".
STRATA_API std::string accepted_values(const OptionSpecification& option);

/// All options of a plugin or of a section of the configuration, in the order in which help shows them.
class STRATA_API OptionSchema {
 public:
  OptionSchema() = default;
  OptionSchema(std::initializer_list<OptionSpecification> options) : options_(options) {}
  explicit OptionSchema(std::vector<OptionSpecification> options) : options_(std::move(options)) {}

  [[nodiscard]] const std::vector<OptionSpecification>& options() const { return options_; }
  [[nodiscard]] const OptionSpecification* find(const std::string& name) const;

  /// Checks type (an integer is accepted as a number), range and choices; the message names what was found and what is
  /// accepted, without a place: the caller knows file and line. \throws ConfigurationError.
  [[nodiscard]] OptionValue checked(const OptionSpecification& option, OptionValue value) const;

 private:
  std::vector<OptionSpecification> options_;
};

/// The checked values of a schema's options.
class STRATA_API Options {
 public:
  Options() = default;
  explicit Options(std::map<std::string, OptionValue> values) : values_(std::move(values)) {}
  /// Every default of `schema`, overridden by `given`. \throws ConfigurationError for unknown, missing or bad values.
  Options(const OptionSchema& schema, const std::map<std::string, OptionValue>& given);

  /// \throws ConfigurationError if the option is missing or of another type.
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

/// The candidate closest to `word` by edit distance, empty when nothing is near.
STRATA_API std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace strata
