#include "search_places.hpp"

#include <dlfcn.h>

#include "loading/plugin_registry.hpp"

namespace strata::testing {
namespace {

/// Its address is in this library.
const char kInThisLibrary = 0;

}  // namespace

std::vector<std::filesystem::path> search_places(const PluginSettings& settings) {
  std::vector<std::filesystem::path> places = settings.plugin_folders;
  const std::vector<std::filesystem::path> of_process = host::plugin_search_places();
  places.insert(places.end(), of_process.begin(), of_process.end());
  Dl_info library{};
  if (::dladdr(&kInThisLibrary, &library) != 0 && library.dli_fname != nullptr) {
    const std::filesystem::path file = std::filesystem::weakly_canonical(library.dli_fname);
    places.push_back(file.parent_path() / "strata" / "plugins");
  }
  return places;
}

}  // namespace strata::testing
