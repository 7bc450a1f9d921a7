#include "chaos/trace.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "checkpoint/checkpoint.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing::chaos {
namespace {

using nlohmann::json;

std::vector<LogLine> read_log(const std::filesystem::path& path) {
  std::vector<LogLine> lines;
  std::istringstream stream(host::test::read_file(path));
  for (std::string line; std::getline(stream, line);) {
    json record = json::parse(line, nullptr, false);
    // Lines for people tell of what disturbed the run.
    if (record.is_object() && record.contains("text")) continue;
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_unsigned()) {
      lines.push_back({0, line});
      continue;
    }
    if (record.value("event", json()) == json("checkpoint")) continue;
    record.erase("time");
    record.erase("host");
    for (const char* key :
         {"tokens_per_second", "model_flops_per_second", "mfu", "arena_bytes", "rss_bytes", "step_seconds",
          "wait_seconds", "data_wait_seconds", "median_tokens_per_second", "median_step_seconds"}) {
      record.erase(key);
    }
    // A summary is of the last start.
    if (record.value("event", json()) == json("summary")) record = {{"event", "summary"}, {"step", record["step"]}};
    lines.push_back({record["step"].get<std::uint64_t>(), record.dump()});
  }
  return lines;
}

std::vector<LogLine> later_lines(const std::vector<LogLine>& all, std::uint64_t after) {
  std::vector<LogLine> lines;
  std::copy_if(all.begin(), all.end(), std::back_inserter(lines),
               [&](const LogLine& each) { return each.step > after; });
  return lines;
}

/// \return the line of `found` that is not in `expected`, in their order; or "".
std::string first_stranger(const std::vector<LogLine>& found, const std::vector<LogLine>& expected) {
  auto at = expected.begin();
  for (const LogLine& line : found) {
    at = std::find(at, expected.end(), line);
    if (at == expected.end()) return line.text;
    ++at;
  }
  return "";
}

std::string log_difference(const Trace& trace, const Trace& expected, const LogScope& scope) {
  const std::vector<LogLine> found = scope.after == 0 ? trace.log : later_lines(trace.log, scope.after);
  const std::vector<LogLine> wanted = later_lines(expected.log, scope.after);
  if (scope.may_miss) {
    const std::string stranger = first_stranger(found, wanted);
    return stranger.empty() ? "" : "the log has a line that the undisturbed run's has not here: " + stranger;
  }
  for (std::size_t i = 0; i < std::max(found.size(), wanted.size()); ++i) {
    const std::string is = i < found.size() ? found[i].text : "nothing";
    const std::string was = i < wanted.size() ? wanted[i].text : "nothing";
    if (is != was) return "the log has\n  " + is + "\nwhere that of the undisturbed run has\n  " + was;
  }
  return "";
}

}  // namespace

Trace read_trace(const std::filesystem::path& log, const std::filesystem::path& output) {
  Trace trace;
  trace.log = read_log(log);
  const std::filesystem::path checkpoint = host::find_checkpoint(output);
  for (const auto& [name, file] : host::read_manifest(checkpoint / "manifest.json").files) {
    trace.tensors[name] = host::test::read_file(checkpoint / name);
  }
  return trace;
}

std::string difference(const Trace& trace, const Trace& expected, const LogScope& scope) {
  for (const auto& [name, bytes] : expected.tensors) {
    const auto found = trace.tensors.find(name);
    if (found == trace.tensors.end()) return "the last checkpoint has no " + name;
    if (found->second != bytes) return "the last checkpoint's " + name + " differs";
  }
  return log_difference(trace, expected, scope);
}

}  // namespace strata::testing::chaos
