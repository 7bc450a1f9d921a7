#include "foreign/import_configuration.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "config/sections.hpp"
#include "foreign/argument_document.hpp"
#include "foreign/imported_run.hpp"
#include "foreign/yaml_document.hpp"

namespace strata::host {
namespace {

struct ForeignFormat {
  std::string name;
  /// Texts of which files of the format have one. Formats are tried in the order of the list.
  std::vector<std::string> marks;
  DocumentNode (*parse)(const std::string& text, const std::string& source);
  ImportReasons (*import)(ImportedRun& run);
};

const std::vector<ForeignFormat>& formats() {
  static const std::vector<ForeignFormat> all = {
      {"megatron", {"--num-layers", "--num_layers"}, parse_arguments, import_megatron},
      {"torchtitan", {"\n[training]", "\n[parallelism]", "\n[lr_scheduler]"}, parse_document, import_torchtitan},
      {"accelerate",
       {"\ndistributed_type:", "\ncompute_environment:", "\nnum_processes:"},
       parse_yaml,
       import_accelerate},
      {"axolotl", {"\nbase_model:"}, parse_yaml, import_axolotl},
      {"deepspeed",
       {"\"zero_optimization\"", "\"train_batch_size\"", "\"train_micro_batch_size_per_gpu\""},
       parse_yaml,
       import_deepspeed}};
  return all;
}

std::string format_list() {
  std::string list;
  for (const std::string& name : foreign_formats()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

const ForeignFormat& format_of(const std::string& text, const std::string& source, const std::string& name) {
  const std::string lines = "\n" + text;
  const auto has = [&](const std::string& mark) { return lines.find(mark) != std::string::npos; };
  const auto found = std::ranges::find_if(formats(), [&](const ForeignFormat& each) {
    return name.empty() ? std::ranges::any_of(each.marks, has) : each.name == name;
  });
  if (found != formats().end()) return *found;
  throw error_at({source, 0, 0}, "",
                 "found no settings of a known program; accepted: --from and one of " + format_list());
}

/// One line of a comment.
std::string comment(const ImportRemark& remark) {
  std::string line =
      "# " + (remark.place.line == 0 ? "" : remark.place.text() + ": ") + remark.key + ": " + remark.reason;
  std::ranges::replace_if(
      line, [](unsigned char each) { return each < ' '; }, ' ');
  return line + "\n";
}

/// Values of a new configuration.
std::map<std::string, std::map<std::string, OptionValue>> defaults() {
  std::map<std::string, std::map<std::string, OptionValue>> values;
  for (const ConfigurationTable& table : configuration_tables(RunConfiguration())) {
    values[table.path] = {table.values.begin(), table.values.end()};
  }
  return values;
}

std::string heading(const std::string& path) {
  const std::string declared = declared_path(path);
  return declared == path ? "[" + path + "]" : "[[" + declared + "]]";
}

}  // namespace

std::vector<std::string> foreign_formats() {
  std::vector<std::string> names;
  for (const ForeignFormat& each : formats()) names.push_back(each.name);
  std::ranges::sort(names);
  return names;
}

std::string ImportedConfiguration::to_toml() const {
  std::string text = "# Made by `strata import-config` of a file of " + format + ".\n";
  if (!remarks.empty()) text += "#\n# Settings that this configuration lacks or has otherwise:\n";
  for (const ImportRemark& each : remarks) text += comment(each);
  const auto known = defaults();
  for (const ConfigurationTable& table : configuration_tables(configuration)) {
    const auto of_table = known.find(table.path);
    std::string lines;
    for (const auto& [name, value] : table.values) {
      const bool is_known = of_table != known.end() && of_table->second.contains(name);
      if (is_known && of_table->second.at(name) == value && name != "plugin") continue;
      lines += name + " = " + strata::to_string(value) + "\n";
    }
    if (!lines.empty()) text += "\n" + heading(table.path) + "\n" + lines;
  }
  return text;
}

ImportedConfiguration import_configuration(const std::string& text, const std::string& source,
                                           const ImportRequest& request) {
  const ForeignFormat& format = format_of(text, source, request.format);
  ForeignSettings settings(format.parse(text, source));
  ImportedRun run{settings, RunConfiguration(), {}};
  run.configuration.run.name = std::filesystem::path(source).stem().string();
  run.layout.ranks = request.ranks;
  const ImportReasons reasons = format.import(run);
  try {
    complete_run(run);
  } catch (const ConfigurationError& error) {
    throw error_at({source, 0, 0}, "", error.what());
  }
  return {format.name, std::move(run.configuration), settings.remarks(reasons)};
}

}  // namespace strata::host
