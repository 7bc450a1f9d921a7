#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loading/plugin_call.hpp"
#include "loading/plugin_file.hpp"
#include "loading/search_places.hpp"
#include "strata/communicator.hpp"
#include "strata/dataset.hpp"
#include "strata/device.hpp"
#include "strata/error.hpp"
#include "strata/model.hpp"
#include "strata/optimizer.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// The kind of a factory's plugins.
template <class Factory>
inline constexpr PluginKind kKindOf = {};
template <>
inline constexpr PluginKind kKindOf<StrategyFactory> = PluginKind::strategy;
template <>
inline constexpr PluginKind kKindOf<ModelFactory> = PluginKind::model;
template <>
inline constexpr PluginKind kKindOf<CommunicatorFactory> = PluginKind::communicator;
template <>
inline constexpr PluginKind kKindOf<DeviceFactory> = PluginKind::device;
template <>
inline constexpr PluginKind kKindOf<LibraryFactory> = PluginKind::library;
template <>
inline constexpr PluginKind kKindOf<OptimizerFactory> = PluginKind::optimizer;
template <>
inline constexpr PluginKind kKindOf<DatasetFactory> = PluginKind::dataset;

/// Finds plugins and loads them by name. The code of a plugin stays loaded until the process ends. The registry
/// outlives all objects that factories have created. Not thread-safe.
class PluginRegistry {
 public:
  explicit PluginRegistry(std::vector<std::filesystem::path> places);
  /// Puts one file, which may lie anywhere, in front of those found. It hides files of the same kind and name.
  PluginRegistry(std::vector<std::filesystem::path> places, const std::filesystem::path& file);
  ~PluginRegistry();
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;

  [[nodiscard]] const std::vector<std::filesystem::path>& places() const { return places_; }
  /// All files found, including refused ones, in the order of the search and by name within a folder. If several
  /// acceptable files have the same kind and name, all but the first are refused.
  [[nodiscard]] const std::vector<PluginFile>& files() const { return files_; }
  /// The descriptions of the files that are not refused, in the same order: of one kind, or of every kind.
  [[nodiscard]] std::vector<PluginDescription> acceptable(std::optional<PluginKind> kind = {}) const;
  /// Permissions that are wider than necessary, of all files that are not refused. Each text names its file or folder.
  [[nodiscard]] std::vector<std::string> warnings() const;

  /// The file that load() takes, or null.
  [[nodiscard]] const PluginFile* find(PluginKind kind, const std::string& name) const;

  /// Loads a plugin, unless it is loaded. The registry owns the factory. \throws ConfigurationError if no plugin has
  /// that name (with the searched folders and the nearest name), or if it is refused or cannot be loaded (with its
  /// path).
  const PluginFactory& load(PluginKind kind, const std::string& name);

  /// From now on, `say` gets a line about each hook that does not end: see HookWatch. The watch ends with the registry.
  void watch_hooks(double limit, std::function<void(const std::string&)> say);
  /// The limit of the watch, if there is one, in seconds; 0: none.
  void set_hook_limit(double seconds);

  /// Loads a plugin of the kind of `Factory`.
  template <class Factory>
  const Factory& load(const std::string& name) {
    const PluginKind kind = kKindOf<Factory>;
    const auto* factory = dynamic_cast<const Factory*>(&load(kind, name));
    if (factory == nullptr) throw wrong_factory(kind, name);
    return *factory;
  }

 private:
  struct Loaded;

  void scan(const std::filesystem::path& folder);
  /// The refused files before `end` that have this kind and name, or are named so, with the reasons. Empty if none are.
  [[nodiscard]] std::string describe_refused(PluginKind kind, const std::string& name, const PluginFile* end) const;
  [[nodiscard]] ConfigurationError not_found(PluginKind kind, const std::string& name) const;
  [[nodiscard]] ConfigurationError wrong_factory(PluginKind kind, const std::string& name) const;

  std::vector<std::filesystem::path> places_;
  std::vector<PluginFile> files_;
  std::map<std::pair<PluginKind, std::string>, std::unique_ptr<Loaded>> loaded_;
  std::unique_ptr<HookWatch> watch_;
};

}  // namespace strata::host
