#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "config/sections.hpp"

namespace strata::host {

/// The words of an enumeration, in the order of its enumerators.
template <class Enumeration>
inline constexpr std::array<std::string_view, 0> kWords;
template <>
inline constexpr std::array<std::string_view, 2> kWords<CheckpointMode> = {"background", "foreground"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<WarmupType> = {"linear", "log"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<HealthAction> = {"stop", "skip", "rewind"};
template <>
inline constexpr std::array<std::string_view, 4> kWords<NormGroups> = {"auto", "none", "layer", "optimizer_group"};

template <class Value>
OptionValue to_option(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return std::string(kWords<Value>.at(static_cast<std::size_t>(value)));
  } else {
    return value;
  }
}

template <class Value>
Value from_option(const OptionValue& option) {
  if constexpr (std::is_enum_v<Value>) {
    const auto word = std::find(kWords<Value>.begin(), kWords<Value>.end(), std::get<std::string>(option));
    return static_cast<Value>(word - kWords<Value>.begin());
  } else {
    return std::get<Value>(option);
  }
}

/// What an option may be besides its type.
struct Limits {
  std::optional<double> minimum = {};
  std::optional<double> maximum = {};
  bool may_differ = false;
};

/// Makes the keys of a section that `Section` stores. Types, defaults and choices of the keys are those of its members.
template <class Section>
class Keys {
 public:
  using Find = Section& (*)(RunConfiguration& configuration, std::size_t table);

  explicit Keys(Find find) : find_(find) {}

  /// A key without a default value.
  template <class Value>
  [[nodiscard]] Key required(Value Section::*member, std::string name, std::string documentation,
                             const Limits& limits = {}) const {
    OptionSpecification option{.name = std::move(name),
                               .type = static_cast<OptionType>(to_option(Value()).index()),
                               .documentation = std::move(documentation),
                               .minimum = limits.minimum,
                               .maximum = limits.maximum,
                               .may_differ = limits.may_differ};
    if constexpr (std::is_enum_v<Value>) option.choices = {kWords<Value>.begin(), kWords<Value>.end()};
    return {.option = std::move(option),
            .get = [find = find_, member](RunConfiguration& configuration,
                                          std::size_t table) { return to_option(find(configuration, table).*member); },
            .set = [find = find_, member](
                       RunConfiguration& configuration, std::size_t table,
                       const OptionValue& value) { find(configuration, table).*member = from_option<Value>(value); }};
  }

  /// A key whose default value is that of its member.
  template <class Value>
  [[nodiscard]] Key key(Value Section::*member, std::string name, std::string documentation,
                        const Limits& limits = {}) const {
    Key made = required(member, std::move(name), std::move(documentation), limits);
    made.option.default_value = to_option(Section().*member);
    return made;
  }

 private:
  Find find_;
};

/// The key `plugin` of a section. Without a `fallback` it is required.
inline Key plugin_key(Keys<PluginSection>::Find find, std::optional<OptionValue> fallback, std::string documentation) {
  Key key = Keys<PluginSection>(find).required(&PluginSection::plugin, "plugin", std::move(documentation));
  key.option.default_value = std::move(fallback);
  return key;
}

/// The table number `table`, which is added if it is missing.
template <class Table>
Table& table_of(std::vector<Table>& tables, std::size_t table) {
  if (tables.size() <= table) tables.resize(table + 1);
  return tables[table];
}

}  // namespace strata::host
