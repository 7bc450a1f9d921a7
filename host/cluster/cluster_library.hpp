#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "config/document.hpp"

namespace strata::host {

/// Joins descriptions that are based on each other. Result: tables that refer to no other description.
class ClusterLibrary {
 public:
  explicit ClusterLibrary(std::filesystem::path published) : published_(std::move(published)) {}

  /// The table [cluster] of a file or of a published system; of a published device, the table of a cluster of one.
  /// `mention`: the value that names it, for messages and relative paths.
  [[nodiscard]] DocumentNode cluster(const std::string& source, const Place& mention) const;
  /// A table [cluster] with everything that it is `based_on`, and with the tables of all devices that its groups name.
  [[nodiscard]] DocumentNode joined_cluster(DocumentNode table) const;

 private:
  [[nodiscard]] DocumentNode joined_cluster(DocumentNode table, int depth) const;
  [[nodiscard]] DocumentNode cluster(const std::string& source, const Place& mention, int depth) const;
  /// A device of `tables`, which is [cluster.device] or null, or a published one.
  [[nodiscard]] DocumentNode device(const std::string& name, const DocumentNode* tables, const Place& mention,
                                    int depth) const;
  [[nodiscard]] DocumentNode published_device(const std::string& name) const;
  [[nodiscard]] bool has_device(const std::string& name) const;
  [[nodiscard]] ConfigurationError unknown_device(const std::string& name, const DocumentNode* tables,
                                                  const Place& mention) const;

  std::filesystem::path published_;
};

}  // namespace strata::host
