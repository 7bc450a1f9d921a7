#include <algorithm>

#include "cli/commands.hpp"
#include "loading/plugin_project.hpp"

namespace strata::host {
namespace {

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
  for (const PluginFile& file : registry.files()) {
    if (!file.refusal.empty() || file.description->kind != kind || file.description->name != name) continue;
    throw ConfigurationError("there is a " + std::string(to_string(kind)) + " '" + name +
                             "' already: " + file.path.string() + "; accepted: another name");
  }
}

int write_project(const NewPluginArguments& arguments, const PluginRegistry& registry, std::ostream& out) {
  const PluginProject project{.kind = kind_called(arguments.kind),
                              .name = arguments.name,
                              .folder = arguments.folder.empty() ? arguments.name : arguments.folder};
  require_free_name(registry, project.kind, project.name);
  for (const auto& file : write_plugin_project(project, template_folder())) {
    out << (project.folder / file).lexically_normal().string() << '\n';
  }
  out << "\nBuild and test it:\n  cd " << project.folder.string()
      << "\n  cmake -S . -B build\n  cmake --build build\n  ctest --test-dir build\n";
  return 0;
}

}  // namespace

void add_plugins_new_command(CLI::App& plugins, CommandContext& context) {
  auto arguments = std::make_shared<NewPluginArguments>();
  CLI::App* command =
      add_command(plugins, context, "new", "Write the project of a new plugin, which builds, tests and packages it",
                  [arguments, &context] { return write_project(*arguments, context.plugins(), context.out); });
  command->add_option("KIND", arguments->kind, "strategy, model, optimizer, dataset, library, communicator or device")
      ->required();
  command->add_option("NAME", arguments->name, "The plugin's name")->required();
  command->add_option("DIR", arguments->folder, "The folder to make (default: NAME)");
}

}  // namespace strata::host
