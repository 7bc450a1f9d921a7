#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "config/document.hpp"
#include "files/file_io.hpp"
#include "strata/error.hpp"

#ifndef STRATA_TEMPLATE_DIRECTORY
#define STRATA_TEMPLATE_DIRECTORY "../share/strata/templates"
#endif

namespace strata::host {
namespace {

using std::filesystem::path;

constexpr std::size_t kLongestName = 25;

/// The project of a new plugin.
struct PluginProject {
  PluginKind kind = PluginKind::strategy;
  /// The plugin's name: lower-case letters, digits and '_', beginning with a letter, at most 25 of them.
  std::string name;
  /// The folder to make. It may exist if it is empty.
  std::filesystem::path folder;
};

void require_project_name(const std::string& name) {
  const auto is_lower = [](char letter) { return letter >= 'a' && letter <= 'z'; };
  const auto is_inner = [&](char letter) {
    return is_lower(letter) || (letter >= '0' && letter <= '9') || letter == '_';
  };
  if (!name.empty() && name.size() <= kLongestName && is_lower(name.front()) && std::ranges::all_of(name, is_inner)) {
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

/// The folder of the templates that this program's SDK has installed. \throws ConfigurationError if it is not
/// installed.
path template_folder() {
  const path program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const path folder = (program / STRATA_TEMPLATE_DIRECTORY).lexically_normal();
  if (std::filesystem::is_directory(folder / "common")) return folder;
  throw ConfigurationError("the templates of plugins are not installed: there is no folder " + folder.string() +
                           "; they belong to the development package (libstrata-dev)");
}

/// Writes a project that builds, tests and packages a plugin. `templates` has one folder for each kind, and the folder
/// "common" with the files of all kinds. A file of a kind takes the place of the common one with the same name.
/// \return the files, relative to the project's folder. \throws ConfigurationError if the name is not accepted or the
/// folder is not empty. \throws RuntimeError if a file cannot be written; then there is no folder.
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

constexpr PluginKind kKinds[] = {PluginKind::strategy, PluginKind::model,   PluginKind::optimizer,
                                 PluginKind::dataset,  PluginKind::library, PluginKind::communicator,
                                 PluginKind::device};

struct NewPluginArguments {
  std::string kind;
  std::string name;
  std::string folder;
};

PluginKind kind_called(const std::string& name) {
  std::vector<std::string> known;
  for (const PluginKind kind : kKinds) {
    if (to_string(kind) == name) return kind;
    known.emplace_back(to_string(kind));
  }
  throw ConfigurationError("found the kind '" + name + "'; accepted: " + join(known, ", "));
}

void require_free_name(const PluginRegistry& registry, PluginKind kind, const std::string& name) {
  const PluginFile* file = registry.find(kind, name);
  if (file == nullptr) return;
  throw ConfigurationError("there is a " + std::string(to_string(kind)) + " '" + name +
                           "' already: " + file->path.string() + "; accepted: another name");
}

int write_project(const NewPluginArguments& arguments, CommandContext& context) {
  const PluginProject project{.kind = kind_called(arguments.kind),
                              .name = arguments.name,
                              .folder = arguments.folder.empty() ? arguments.name : arguments.folder};
  require_free_name(context.plugins(), project.kind, project.name);
  for (const auto& file : write_plugin_project(project, template_folder())) {
    context.out << (project.folder / file).lexically_normal().string() << '\n';
  }
  context.out << "\nBuild and test it:\n  cd " << project.folder.string()
              << "\n  cmake -S . -B build\n  cmake --build build\n  ctest --test-dir build\n";
  return 0;
}

}  // namespace

void add_plugins_new_command(CLI::App& plugins, CommandContext& context) {
  const auto [command, arguments] = add_command<NewPluginArguments>(
      plugins, context, "new", "Write the project of a new plugin, which builds, tests and packages it", write_project);
  command->add_option("KIND", arguments->kind, "strategy, model, optimizer, dataset, library, communicator or device")
      ->required();
  command->add_option("NAME", arguments->name, "The plugin's name")->required();
  command->add_option("DIR", arguments->folder, "The folder to make (default: NAME)");
}

}  // namespace strata::host
