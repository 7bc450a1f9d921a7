#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/document.hpp"

namespace strata::host {

/// A setting of another program that the configuration has not, or not in the same way.
struct ImportRemark {
  Place place;
  std::string key;
  std::string reason;
};

/// The settings of another program, each with its place in the file. Remembers which ones were read, so that the others
/// can be listed. A value that is missing or "auto" reads as empty. All readers throw a ConfigurationError with file,
/// line and key if a value has another type.
class ForeignSettings {
 public:
  explicit ForeignSettings(DocumentNode root) : root_(std::move(root)) {}

  /// The paths of a setting, whose name differs between versions of the program. The first that exists counts.
  using Paths = std::initializer_list<const char*>;

  [[nodiscard]] bool has(const std::string& path) const { return root_.at(path) != nullptr; }
  /// True if there is a table or a list of tables at the path.
  [[nodiscard]] bool has_table(const std::string& path) const;
  [[nodiscard]] std::optional<std::int64_t> integer(Paths paths);
  [[nodiscard]] std::optional<double> number(Paths paths);
  [[nodiscard]] std::optional<std::string> word(Paths paths);
  /// A list of two numbers.
  [[nodiscard]] std::optional<std::vector<double>> pair(Paths paths);
  /// A list, or one word with commas.
  [[nodiscard]] std::vector<std::string> words(Paths paths);
  /// False if it is missing.
  [[nodiscard]] bool flag(Paths paths) { return chosen_flag(paths).value_or(false); }
  [[nodiscard]] std::optional<bool> chosen_flag(Paths paths);
  /// A value of any type: "true", "auto", "0.5". Empty if it is missing.
  [[nodiscard]] std::string text(Paths paths);

  /// Says what becomes of a setting, if the file has it.
  void remark(const std::string& path, const std::string& reason);
  /// Says what the configuration has although the file does not say it.
  void remark_on_file(const std::string& key, const std::string& reason);
  /// Adds the remarks on another file that this one names.
  void add(const std::vector<ImportRemark>& remarks);
  /// The folder of the file.
  [[nodiscard]] std::filesystem::path folder() const;
  /// Refuses the value at a path.
  [[noreturn]] void refuse(const std::string& path, const std::string& accepted) const;

  /// All remarks in the order of the file, with those of settings that nobody has read. `reasons`: by the begin of the
  /// path.
  [[nodiscard]] std::vector<ImportRemark> remarks(const std::map<std::string, std::string>& reasons) const;

 private:
  struct Found {
    std::string path;
    const DocumentNode* node;
  };

  [[nodiscard]] std::optional<Found> find(Paths paths);
  /// Remarks on "auto". \return false for other values.
  [[nodiscard]] bool is_open(const Found& found);
  void add_unread(const DocumentNode& node, const std::string& path, const std::map<std::string, std::string>& reasons,
                  std::vector<ImportRemark>& remarks) const;

  DocumentNode root_;
  std::set<std::string> read_;
  std::vector<ImportRemark> remarks_;
};

}  // namespace strata::host
