#include "loading/search_places.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

// Both are set by CMake: the plugins' folder relative to the program's, and the distribution's name for this kind of
// machine, such as x86_64-linux-gnu.
#ifndef STRATA_PLUGIN_DIRECTORY
#define STRATA_PLUGIN_DIRECTORY "../lib/strata/plugins"
#endif
#ifndef STRATA_MULTIARCH
#define STRATA_MULTIARCH ""
#endif

namespace strata::host {
namespace {

using std::filesystem::path;

class PlaceList {
 public:
  /// Adds a folder, unless it is there under the same or another name. Links in `place` remain, because a plugin is
  /// trusted only if every link on the way to it is.
  void add(const path& place) {
    const path absolute = std::filesystem::absolute(place);
    std::error_code error;
    const path resolved = std::filesystem::weakly_canonical(absolute, error);
    if (std::ranges::find(resolved_, resolved) != resolved_.end()) return;
    resolved_.push_back(resolved);
    // "a/link/.." is not "a" if the link leads elsewhere.
    const path plain = absolute.lexically_normal();
    places_.push_back(std::filesystem::weakly_canonical(plain, error) == resolved ? plain : absolute);
  }

  [[nodiscard]] const std::vector<path>& places() const { return places_; }

 private:
  std::vector<path> places_;
  std::vector<path> resolved_;
};

std::string variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

PluginEnvironment plugin_environment() {
  return {variable("STRATA_PLUGIN_PATH"), variable("XDG_DATA_HOME"), variable("HOME")};
}

std::vector<path> plugin_search_places(const path& program_folder, const PluginEnvironment& environment) {
  PlaceList list;
  std::stringstream chosen(environment.plugin_path);
  for (std::string place; std::getline(chosen, place, ':');) {
    if (!place.empty()) list.add(place);
  }
  // The XDG Base Directory Specification says that relative paths are invalid.
  const path home(environment.home);
  path data(environment.data_home);
  if (!data.is_absolute() && home.is_absolute()) data = home / ".local/share";
  if (data.is_absolute()) list.add(data / "strata/plugins");
  list.add(program_folder / "../lib/strata/plugins");
  list.add(program_folder / STRATA_PLUGIN_DIRECTORY);
  for (const path prefix : {"/usr/local/lib", "/usr/lib"}) {
    if (const path multiarch = STRATA_MULTIARCH; !multiarch.empty()) list.add(prefix / multiarch / "strata/plugins");
    list.add(prefix / "strata/plugins");
  }
  return list.places();
}

std::vector<path> plugin_search_places() {
  return plugin_search_places(std::filesystem::read_symlink("/proc/self/exe").parent_path(), plugin_environment());
}

}  // namespace strata::host
