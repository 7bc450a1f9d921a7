#include "loading/plugin_registry.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>

#include "strata/internal/hook_scope.hpp"

namespace strata::host {
namespace {

namespace dll = boost::dll;
using std::filesystem::path;

/// Plugins are never unloaded, because a thread pool that a plugin has started (OpenMP) would continue in unmapped
/// code.
constexpr auto kLoadMode =
    static_cast<dll::load_mode::type>(dll::load_mode::rtld_now | dll::load_mode::rtld_local | RTLD_NODELETE);

/// Extracts the system's reason from Boost's message, without the path, which the caller's message contains.
std::string load_failure(const std::string& what, const path& file) {
  static constexpr std::string_view kBefore = "dlerror system message: ";
  std::string reason = what;
  if (const std::size_t at = reason.find(kBefore); at != std::string::npos) {
    reason = reason.substr(at + kBefore.size());
    reason = reason.substr(0, reason.rfind(')'));
  }
  if (const std::string prefix = file.string() + ": "; reason.starts_with(prefix))
    reason = reason.substr(prefix.size());
  return reason;
}

std::string kind_name(PluginKind kind) { return std::string(to_string(kind)); }

std::string list(const std::vector<std::string>& words) { return words.empty() ? "none" : join(words, ", "); }

}  // namespace

struct PluginRegistry::Loaded {
  dll::shared_library library;
  const PluginFactory* factory = nullptr;
};

PluginRegistry::PluginRegistry(std::vector<path> places) : places_(std::move(places)) {
  for (const path& place : places_) scan(place);
}

PluginRegistry::PluginRegistry(std::vector<path> places, const path& file) : places_(std::move(places)) {
  files_.push_back(inspect_plugin_file(file));
  for (const path& place : places_) scan(place);
  // The file itself may lie in one of the places.
  const auto again = std::find_if(files_.begin() + 1, files_.end(),
                                  [this](const PluginFile& each) { return each.path == files_.front().path; });
  if (again != files_.end()) files_.erase(again);
}

PluginRegistry::~PluginRegistry() = default;

void PluginRegistry::scan(const path& folder) {
  std::error_code error;
  std::vector<path> found;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".so") found.push_back(entry->path());
  }
  if (found.empty()) return;
  std::ranges::sort(found);
  for (const path& candidate : found) {
    PluginFile file = inspect_plugin_file(candidate);
    if (file.refusal.empty()) {
      if (const PluginFile* first = find(file.description->kind, file.description->name)) {
        file.refusal = "it is hidden by " + first->path.string() + ", which is searched first";
      }
    }
    files_.push_back(std::move(file));
  }
}

std::vector<PluginDescription> PluginRegistry::acceptable(std::optional<PluginKind> kind) const {
  std::vector<PluginDescription> plugins;
  for (const PluginFile& file : files_) {
    if (file.refusal.empty() && (!kind || file.description->kind == *kind)) plugins.push_back(*file.description);
  }
  return plugins;
}

std::vector<std::string> PluginRegistry::warnings() const {
  std::vector<std::string> warnings;
  for (const PluginFile& file : files_) {
    if (!file.refusal.empty()) continue;
    for (const std::string& text : file.warnings) {
      const std::string warning = text.starts_with("it ") ? file.path.string() + ": " + text : text;
      if (!contains(warnings, warning)) warnings.push_back(warning);
    }
  }
  return warnings;
}

const PluginFile* PluginRegistry::find(PluginKind kind, const std::string& name) const {
  for (const PluginFile& file : files_) {
    if (file.refusal.empty() && file.description->kind == kind && file.description->name == name) return &file;
  }
  return nullptr;
}

std::string PluginRegistry::describe_refused(PluginKind kind, const std::string& name, const PluginFile* end) const {
  const std::string file_name = kind_name(kind) + "_" + name + ".so";
  std::vector<std::string> refused;
  for (const PluginFile& file : files_) {
    if (&file == end) break;
    const bool described = file.description && file.description->kind == kind && file.description->name == name;
    if (file.refusal.empty() || (!described && file.path.filename() != file_name)) continue;
    refused.push_back(file.path.string() + ": refused: " + file.refusal);
  }
  return join(refused, "; ");
}

void PluginRegistry::watch_hooks(double limit, std::function<void(const std::string&)> say) {
  watch_ = std::make_unique<HookWatch>(limit, std::move(say));
}

void PluginRegistry::set_hook_limit(double seconds) {
  if (watch_) watch_->set_limit(seconds);
}

const PluginFactory& PluginRegistry::load(PluginKind kind, const std::string& name) {
  if (const auto found = loaded_.find({kind, name}); found != loaded_.end()) return *found->second->factory;
  const PluginFile* file = find(kind, name);
  if (file == nullptr) throw not_found(kind, name);
  // To take the next one in silence would run another plugin than the one that the user put first.
  if (const std::string refused = describe_refused(kind, name, file); !refused.empty()) {
    throw ConfigurationError(refused + "; searched before " + file->path.string() + "; accepted: repair or remove it");
  }
  const std::string where = file->path.string() + ": ";
  auto loaded = std::make_unique<Loaded>();
  // The loader trusts the file's tables, and the plugin's constructors run: either may end the program.
  const HookScope scope(LastingText(file->path.string()), "load");
  try {
    file->library->require_unchanged();
    check_plugin_checksums(*file->library);
    loaded->library.load(file->path, kLoadMode);
    file->library->require_loaded(loaded->library.native());
  } catch (const std::system_error& error) {
    throw ConfigurationError(where + "the plugin cannot be loaded: " + load_failure(error.what(), file->path));
  } catch (const Error& error) {
    throw ConfigurationError(where + "the plugin cannot be loaded: " + error.what());
  }
  if (!loaded->library.has(kPluginEntry)) {
    throw ConfigurationError(where + "the plugin has no function " + kPluginEntry +
                             "; accepted: plugins that declare " + "themselves with STRATA_PLUGIN");
  }
  try {
    loaded->factory = loaded->library.get<PluginFactory*()>(kPluginEntry)();
  } catch (...) {
    throw ConfigurationError(where + "the plugin failed to start: " + current_exception_text());
  }
  if (loaded->factory == nullptr) throw ConfigurationError(where + kPluginEntry + " returned nothing");
  return *(loaded_[{kind, name}] = std::move(loaded))->factory;
}

ConfigurationError PluginRegistry::not_found(PluginKind kind, const std::string& name) const {
  if (const std::string refused = describe_refused(kind, name, nullptr); !refused.empty()) {
    return ConfigurationError(refused);
  }
  std::vector<std::string> available;
  std::string other_kind;
  for (const PluginDescription& plugin : acceptable()) {
    if (plugin.kind == kind) available.push_back(plugin.name);
    if (plugin.name == name) other_kind = kind_name(plugin.kind);
  }
  std::string message = kind_name(kind) + " plugin '" + name + "' not found";
  if (const std::string near = nearest(name, available); !near.empty()) message += "; did you mean '" + near + "'?";
  if (!other_kind.empty()) message += "; '" + name + "' is a " + other_kind;
  if (kind == PluginKind::device || kind == PluginKind::communicator) {
    message += "; if a package brings it, that is strata-plugin-" + name;
  }
  message += "; accepted: " + list(available);
  std::vector<std::string> searched;
  for (const path& place : places_) {
    searched.push_back(place.string() + (std::filesystem::is_directory(place) ? "" : " (no such folder)"));
  }
  return ConfigurationError(message + "; searched: " + list(searched));
}

ConfigurationError PluginRegistry::wrong_factory(PluginKind kind, const std::string& name) const {
  const PluginFile* file = find(kind, name);
  return ConfigurationError((file == nullptr ? name : file->path.string()) + ": the plugin says that it is a " +
                            kind_name(kind) + ", but its factory is that of another kind");
}

}  // namespace strata::host
