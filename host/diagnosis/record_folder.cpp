#include "diagnosis/record_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "files/file_io.hpp"
#include "files/json.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Version of the files' contents.
constexpr std::uint64_t kRecordVersion = 1;
/// No run has more ranks.
constexpr int kMostRanks = 10'000'000;

ordered_json communication_json(const RecordedCommunication& communication) {
  return {{"number", communication.number},
          {"kind", communication.kind},
          {"name", communication.name},
          {"ranks", communication.ranks},
          {"group", communication.group},
          {"ordinal", communication.ordinal},
          {"repeats", communication.repeats},
          {"run", communication.run},
          {"step", communication.step},
          {"micro_batch", communication.micro_batch},
          {"bytes", communication.bytes},
          {"id", communication.id},
          {"state", name_of(communication.state)},
          {"issued_at", communication.issued_at},
          {"completed_at", communication.completed_at}};
}

template <class Integer>
Integer in_range(const JsonValue& value, Integer least, Integer most = std::numeric_limits<Integer>::max()) {
  const auto number = value.integer<Integer>();
  if (number < least || number > most) {
    value.refuse("an integer from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

std::uint64_t count(const JsonValue& value) { return value.integer<std::uint64_t>(); }

template <class Value>
Value named(const JsonValue& value, std::optional<Value> (*find)(std::string_view)) {
  const auto found = find(value.string());
  if (!found) value.refuse("a name that this version writes");
  return *found;
}

RecordedCommunication parse_communication(const JsonValue& value) {
  std::vector<int> ranks;
  for (const JsonValue& each : value.at("ranks").elements()) ranks.push_back(in_range(each, 0, kMostRanks));
  return {.number = count(value.at("number")),
          .kind = value.at("kind").string(),
          .name = value.at("name").string(),
          .ranks = std::move(ranks),
          .group = in_range(value.at("group"), 0),
          .ordinal = count(value.at("ordinal")),
          .repeats = count(value.at("repeats")),
          .run = count(value.at("run")),
          .step = count(value.at("step")),
          .micro_batch = in_range(value.at("micro_batch"), -1),
          .bytes = in_range<std::int64_t>(value.at("bytes"), 0),
          .id = count(value.at("id")),
          .state = named(value.at("state"), communication_state_named),
          .issued_at = value.at("issued_at").number(),
          .completed_at = value.at("completed_at").number()};
}

RecordedInstruction parse_instruction(const JsonValue& value) {
  return {.task = value.at("task").string(),
          .phase = value.at("phase").string(),
          .micro_batch = in_range(value.at("micro_batch"), -1),
          .index = count(value.at("index")),
          .kind = value.at("kind").string(),
          .work = value.at("work").string(),
          .name = value.at("name").string(),
          .count = count(value.at("count"))};
}

constexpr int kArchives = 3;

std::filesystem::path archive_path(const std::filesystem::path& output, int number) {
  const std::string name = kDiagnosisName;
  return output / (number == 0 ? name : name + "." + std::to_string(number));
}

}  // namespace

std::string to_json_text(const FlightRecord& record) {
  ordered_json value{{"version", kRecordVersion},
                     {"rank", record.rank},
                     {"ranks", record.rank_count},
                     {"host", record.host},
                     {"process", record.process},
                     {"time", record.time},
                     {"activity", name_of(record.activity)},
                     {"step", record.step},
                     {"run", record.run},
                     {"does", describe(record)},
                     {"seconds", record.seconds},
                     {"instruction", nullptr},
                     {"ends_step", record.ends_step},
                     {"awaited", nullptr},
                     {"error", record.error},
                     {"is_echo", record.is_echo}};
  if (const auto& instruction = record.instruction) {
    value["instruction"] = {
        {"task", instruction->task},   {"phase", instruction->phase}, {"micro_batch", instruction->micro_batch},
        {"index", instruction->index}, {"kind", instruction->kind},   {"work", instruction->work},
        {"name", instruction->name},   {"count", instruction->count}};
  }
  if (record.awaited) value["awaited"] = *record.awaited;
  value["communications"] = ordered_json::array();
  for (const RecordedCommunication& each : record.communications) {
    value["communications"].push_back(communication_json(each));
  }
  return json_text(value, 1) + "\n";
}

FlightRecord parse_record(std::string_view text) {
  const json content = parse_json_text(text);
  if (!content.is_object()) throw RuntimeError("is no JSON object, or was cut off");
  const JsonValue value(content);
  if (const auto version = count(value.at("version")); version != kRecordVersion) {
    throw RuntimeError("has version " + std::to_string(version) + "; accepted: " + std::to_string(kRecordVersion));
  }
  FlightRecord record{.rank = in_range(value.at("rank"), 0, kMostRanks),
                      .rank_count = in_range(value.at("ranks"), 1, kMostRanks),
                      .host = value.at("host").string(),
                      .process = in_range(value.at("process"), 0),
                      .time = value.at("time").number(),
                      .activity = named(value.at("activity"), activity_named),
                      .step = count(value.at("step")),
                      .run = count(value.at("run"))};
  if (record.rank >= record.rank_count) throw RuntimeError("'rank' is not below 'ranks'");
  if (const auto instruction = value.find("instruction")) record.instruction = parse_instruction(*instruction);
  record.ends_step = value.at("ends_step").boolean();
  if (const auto awaited = value.find("awaited")) record.awaited = count(*awaited);
  record.seconds = value.at("seconds").number();
  record.error = value.at("error").string();
  record.is_echo = value.at("is_echo").boolean();
  for (const JsonValue& each : value.at("communications").elements()) {
    record.communications.push_back(parse_communication(each));
  }
  return record;
}

std::string record_name(int rank) { return fmt::format("rank-{:05}.json", rank); }

void archive_records(const std::filesystem::path& output) {
  std::error_code error;
  if (!std::filesystem::is_directory(archive_path(output, 0), error)) return;
  std::filesystem::remove_all(archive_path(output, kArchives), error);
  for (int number = kArchives - 1; number >= 0 && !error; --number) {
    const std::filesystem::path path = archive_path(output, number);
    if (std::filesystem::exists(path)) std::filesystem::rename(path, archive_path(output, number + 1), error);
  }
  if (!error) return;
  throw RuntimeError("the records in '" + archive_path(output, 0).string() +
                     "' of an earlier start cannot be moved: " + error.message());
}

RecordFolder::RecordFolder(std::filesystem::path path) : path_(std::move(path)), seen_(mark()) {}

RecordFolder::Mark RecordFolder::mark() const {
  struct stat status {};
  if (::stat((path_ / kRequestName).c_str(), &status) != 0) return {};
  return {status.st_ino, std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void RecordFolder::write(const FlightRecord& record) const {
  std::filesystem::create_directories(path_);
  replace_file(path_ / record_name(record.rank), to_json_text(record));
}

std::optional<FlightRecord> RecordFolder::read_recent(int rank, int reference, std::chrono::seconds age) const {
  try {
    // The clock of the file system dates both, as those of hosts may differ.
    const std::filesystem::path path = path_ / record_name(rank);
    const auto written = std::filesystem::last_write_time(path);
    if (written + age < std::filesystem::last_write_time(path_ / record_name(reference))) return {};
    return parse_record(MappedFile(path).text());
  } catch (const std::exception&) {
    return {};
  }
}

void RecordFolder::request(const std::string& reason) {
  if (is_requested()) return;
  std::filesystem::create_directories(path_);
  replace_file(path_ / kRequestName, reason + "\n");
  seen_ = mark();
}

bool RecordFolder::is_requested() {
  const Mark found = mark();
  if (found == seen_) return false;
  seen_ = found;
  return found != Mark{};
}

}  // namespace strata::host
