#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "diagnosis/record_folder.hpp"
#include "diagnosis/verdict.hpp"
#include "files/exit_codes.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

struct DiagnoseArguments {
  std::string folder;
  bool json = false;
};

/// The records in a folder.
struct FoundRecords {
  std::vector<FlightRecord> whole;
  /// What is wrong with the others: one message a file.
  std::vector<std::string> damaged;
};

/// The folder of records that `given` is or contains.
fs::path find_records(const fs::path& given) {
  if (!fs::is_directory(given)) {
    throw ConfigurationError("'" + given.string() + "' is no folder; accepted: a run's output folder, or the folder '" +
                             kDiagnosisName + "' in it");
  }
  return fs::is_directory(given / kDiagnosisName) ? given / kDiagnosisName : given;
}

bool is_record_name(const std::string& name) { return name.starts_with("rank-") && name.ends_with(".json"); }

FoundRecords read_records(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_record_name(entry.path().filename().string())) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  FoundRecords found;
  for (const fs::path& path : paths) {
    try {
      const MappedFile file(path);
      FlightRecord record = parse_record(file.text());
      if (record_name(record.rank) != path.filename()) {
        throw RuntimeError("is the record of rank " + std::to_string(record.rank));
      }
      found.whole.push_back(std::move(record));
    } catch (const Error& error) {
      const std::string message = error.what();
      const bool has_path = message.find(path.string()) != std::string::npos;
      found.damaged.push_back(has_path ? message : "record '" + path.string() + "' " + message);
    }
  }
  return found;
}

int diagnose(const DiagnoseArguments& arguments, CommandContext& context) {
  const fs::path folder = find_records(arguments.folder);
  const FoundRecords found = read_records(folder);
  if (found.whole.empty()) {
    const std::string why = found.damaged.empty() ? "" : ": " + found.damaged.front();
    throw ConfigurationError("'" + folder.string() + "' has no record" + why +
                             "; a rank writes one when it hangs (run.watchdog), when it fails, and on SIGQUIT");
  }
  const RankVerdict verdict = judge(found.whole);
  if (arguments.json) {
    nlohmann::ordered_json document = verdict_json(verdict);
    document["damaged"] = found.damaged;
    write_json(context.out, document);
  } else {
    for (const std::string& each : found.damaged) print_error(context.messages, each);
    context.out << verdict_text(verdict);
  }
  return found.damaged.empty() ? 0 : kFailed;
}

}  // namespace

void add_diagnose_command(CLI::App& app, CommandContext& context) {
  const auto [command, arguments] = add_command<DiagnoseArguments>(
      app, context, "diagnose",
      "Compare what the ranks of a run did when it hung or failed, and name the rank for which the others wait; exit "
      "code 0 if all records can be read, 1 if some are damaged, 2 if there are none",
      diagnose);
  command->add_option("FOLDER", arguments->folder, "The run's output folder, or the folder 'diagnosis' in it")
      ->required();
  command->add_flag("--json", arguments->json, "Print JSON");
}

}  // namespace strata::host
