#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/plugin_file.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "strata/error.hpp"
#include "strata/model.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// Folders to search, in this order: those of `environment` (a list with colons, STRATA_PLUGIN_PATH), then beside the
/// program's own folder as in the build tree and in an installation.
std::vector<std::filesystem::path> plugin_search_places(const std::filesystem::path& program_folder,
                                                        const std::string& environment);

/// The same for this process.
std::vector<std::filesystem::path> plugin_search_places();

template <class Factory>
struct PluginKindOf;
template <>
struct PluginKindOf<StrategyFactory> {
  static constexpr PluginKind value = PluginKind::strategy;
};
template <>
struct PluginKindOf<ModelFactory> {
  static constexpr PluginKind value = PluginKind::model;
};
template <>
struct PluginKindOf<CommunicatorFactory> {
  static constexpr PluginKind value = PluginKind::communicator;
};
template <>
struct PluginKindOf<DeviceFactory> {
  static constexpr PluginKind value = PluginKind::device;
};

/// Finds plugins and loads them by name. Their code stays loaded as long as the process lives; what came out of a
/// factory must not outlive the registry. Used by one thread at a time.
class PluginRegistry {
 public:
  explicit PluginRegistry(std::vector<std::filesystem::path> places);
  ~PluginRegistry();
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;

  [[nodiscard]] const std::vector<std::filesystem::path>& places() const { return places_; }
  /// Everything found, in the order of the search and by name within a folder; refused files too. Of several sound
  /// files of one kind and name the first counts, the others are refused.
  [[nodiscard]] const std::vector<PluginFile>& files() const { return files_; }

  /// Loads the plugin if it is not loaded yet. \throws ConfigurationError if there is none of that name (with the
  /// places searched and the nearest name), or it is refused or cannot be loaded (with its path).
  const PluginFactory& load(PluginKind kind, const std::string& name);

  /// The same, typed.
  template <class Factory>
  const Factory& load(const std::string& name) {
    const PluginKind kind = PluginKindOf<Factory>::value;
    const auto* factory = dynamic_cast<const Factory*>(&load(kind, name));
    if (factory == nullptr) throw wrong_factory(kind, name);
    return *factory;
  }

 private:
  struct Loaded;

  void scan(const std::filesystem::path& folder);
  [[nodiscard]] const PluginFile* find(PluginKind kind, const std::string& name) const;
  [[nodiscard]] ConfigurationError not_found(PluginKind kind, const std::string& name) const;
  [[nodiscard]] ConfigurationError wrong_factory(PluginKind kind, const std::string& name) const;

  std::vector<std::filesystem::path> places_;
  std::vector<PluginFile> files_;
  std::map<std::pair<PluginKind, std::string>, std::unique_ptr<Loaded>> loaded_;
};

}  // namespace strata::host
