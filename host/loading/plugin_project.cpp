#include "loading/plugin_project.hpp"

#include <algorithm>
#include <map>

#include "config/document.hpp"
#include "files/file_io.hpp"
#include "files/new_folder.hpp"
#include "strata/error.hpp"

#ifndef STRATA_TEMPLATE_DIRECTORY
#define STRATA_TEMPLATE_DIRECTORY "../share/strata/templates"
#endif

namespace strata::host {
namespace {

using std::filesystem::path;

constexpr std::size_t kLongestName = 25;

void require_project_name(const std::string& name) {
  const auto is_lower = [](char letter) { return letter >= 'a' && letter <= 'z'; };
  const auto is_inner = [&](char letter) {
    return is_lower(letter) || (letter >= '0' && letter <= '9') || letter == '_';
  };
  if (!name.empty() && name.size() <= kLongestName && is_lower(name.front()) &&
      std::all_of(name.begin(), name.end(), is_inner)) {
    return;
  }
  throw ConfigurationError("found the plugin name '" + name + "'; accepted: at most " + std::to_string(kLongestName) +
                           " lower-case letters, digits and '_', beginning with a letter");
}

/// "slow_weights" -> "SlowWeights".
std::string class_name(const std::string& name) {
  std::string text;
  bool begins_word = true;
  for (const char letter : name) {
    if (letter != '_') text += begins_word && letter >= 'a' ? static_cast<char>(letter - 'a' + 'A') : letter;
    begins_word = letter == '_';
  }
  return text;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

/// Puts the project's names in place of those that the templates use.
class Wording {
 public:
  explicit Wording(const PluginProject& project)
      : words_{{"my_plugin", project.name},
               {"MyPlugin", class_name(project.name)},
               {"my_kind", std::string(to_string(project.kind))}} {}

  [[nodiscard]] std::string applied(std::string text) const {
    for (const auto& [from, to] : words_) replace_all(text, from, to);
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> words_;
};

/// The template of each file of a project.
std::map<path, path> template_files(const path& templates, PluginKind kind) {
  std::map<path, path> files;
  for (const path& folder : {templates / "common", templates / std::string(to_string(kind))}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const path name = entry.path().filename();
      // Packaging tools leave out files whose names begin with a dot.
      files[name == "gitignore" ? path(".gitignore") : name] = entry.path();
    }
  }
  return files;
}

/// The folder as an absolute path without a slash at its end. \throws ConfigurationError if nothing can contain it.
path absolute_folder(const path& given) {
  path folder = std::filesystem::absolute(given).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(folder.parent_path(), error)) {
    throw ConfigurationError(folder.string() + ": there is no folder " + folder.parent_path().string());
  }
  return folder;
}

}  // namespace

path template_folder() {
  const path program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const path folder = (program / STRATA_TEMPLATE_DIRECTORY).lexically_normal();
  if (std::filesystem::is_directory(folder / "common")) return folder;
  throw ConfigurationError("the templates of plugins are not installed: there is no folder " + folder.string() +
                           "; they belong to the development package (libstrata-dev)");
}

std::vector<path> write_plugin_project(const PluginProject& project, const path& templates) {
  require_project_name(project.name);
  const Wording wording(project);
  NewFolder folder(absolute_folder(project.folder));
  std::vector<path> written;
  for (const auto& [name, source] : template_files(templates, project.kind)) {
    written.emplace_back(wording.applied(name.string()));
    folder.write(written.back().string(), wording.applied(read_text(source)));
  }
  folder.commit();
  return written;
}

}  // namespace strata::host
