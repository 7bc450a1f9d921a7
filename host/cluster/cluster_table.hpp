#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "cluster/cluster_fields.hpp"
#include "config/document.hpp"

namespace strata::host {

/// One table of a cluster file, for reading. Messages name file, line, column and key.
class ClusterTable {
 public:
  /// `path`: the table in messages, such as "cluster.level.0". \throws ConfigurationError if the node is no table.
  ClusterTable(const DocumentNode& node, std::string path);

  [[nodiscard]] const DocumentNode& node() const { return node_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(std::string_view key) const;

  /// The table with its numbers. `others`: the keys that the caller reads. \throws ConfigurationError for an unknown or
  /// missing key, and for a value out of range.
  template <class Table>
  [[nodiscard]] Table read(std::vector<std::string> others) const {
    std::vector<std::string> keys = std::move(others);
    for (const NumberField<Table>& field : number_fields<Table>()) keys.emplace_back(field.name);
    refuse_unknown_keys(keys);
    Table table;
    for (const NumberField<Table>& field : number_fields<Table>()) {
      const DocumentNode* value = node_.find(std::string(field.name));
      if (value == nullptr) {
        if (field.is_required) throw missing(field.name, accepted(range_of(field)));
        continue;
      }
      std::visit([&](auto member) { store(table.*member, field, *value); }, field.member);
    }
    return table;
  }

  /// The word of a key. Empty if the key is missing.
  [[nodiscard]] std::string word(std::string_view key) const;
  /// \throws ConfigurationError also if the key is missing or empty.
  [[nodiscard]] std::string required_word(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const;
  /// The numbers of a list. Empty if the key is missing.
  [[nodiscard]] std::vector<double> numbers(std::string_view key, const ElementRange& range) const;
  /// The tables of a list, each with its path. Empty if the key is missing.
  [[nodiscard]] std::vector<ClusterTable> tables(std::string_view key) const;
  /// The number at `node`, which is in this table. \throws ConfigurationError if it is out of range.
  [[nodiscard]] double number(const DocumentNode& node, const std::string& path, const ElementRange& range) const;

  /// An error about a key that the table lacks.
  [[nodiscard]] ConfigurationError missing(std::string_view key, const std::string& accepted) const;
  /// An error about the value of a key, or about the table if it lacks the key.
  [[nodiscard]] ConfigurationError error(std::string_view key, const std::string& message) const;

 private:
  template <class Table>
  static ElementRange range_of(const NumberField<Table>& field) {
    return {field.unit, field.least, field.most, field.may_be_zero};
  }

  template <class Table, class Value>
  void store(Value& value, const NumberField<Table>& field, const DocumentNode& node) const {
    const double number = this->number(node, path_of(field.name), range_of(field));
    if constexpr (std::is_integral_v<Value>) {
      if (number != std::floor(number)) throw not_whole(field.name, node);
      value = static_cast<Value>(number);
    } else {
      value = number;
    }
  }

  [[nodiscard]] static std::string accepted(const ElementRange& range);
  [[nodiscard]] ConfigurationError not_whole(std::string_view key, const DocumentNode& node) const;
  void refuse_unknown_keys(const std::vector<std::string>& known) const;

  const DocumentNode& node_;
  std::string path_;
};

}  // namespace strata::host
