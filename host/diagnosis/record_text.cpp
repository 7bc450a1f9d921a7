#include "diagnosis/record_text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "files/json_text.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Version of the files' contents.
constexpr int kRecordVersion = 1;
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

/// The values of one object. Messages name the key and what it holds.
class RecordFields {
 public:
  RecordFields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw RuntimeError(where_ + " is no JSON object");
  }

  [[nodiscard]] bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

  [[nodiscard]] const json& at(const char* key, const char* accepted, bool (*fits)(const json&)) const {
    const auto found = object_.find(key);
    if (found != object_.end() && fits(*found)) return *found;
    throw RuntimeError(where_ + "'" + key + "' is " +
                       (found == object_.end() ? "missing" : std::string("a ") + found->type_name()) +
                       "; accepted: " + accepted);
  }
  [[nodiscard]] std::string text(const char* key) const {
    return at(key, "a string", [](const json& value) { return value.is_string(); }).get<std::string>();
  }
  [[nodiscard]] bool flag(const char* key) const {
    return at(key, "true or false", [](const json& value) { return value.is_boolean(); }).get<bool>();
  }
  [[nodiscard]] double number(const char* key) const {
    return at(key, "a number", [](const json& value) { return value.is_number(); }).get<double>();
  }
  [[nodiscard]] std::uint64_t count(const char* key) const {
    return at(key, "a number that is not negative", [](const json& value) { return value.is_number_unsigned(); })
        .get<std::uint64_t>();
  }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) const {
    const auto value =
        at(key, "an integer", [](const json& each) { return each.is_number_integer(); }).get<std::int64_t>();
    return in_range(key, value, least, most);
  }
  [[nodiscard]] std::vector<int> ranks(const char* key) const {
    std::vector<int> result;
    for (const json& each : list(key)) {
      if (!each.is_number_integer()) throw RuntimeError(where_ + "'" + key + "' holds what is no rank");
      result.push_back(static_cast<int>(in_range(key, each.get<std::int64_t>(), 0, kMostRanks)));
    }
    return result;
  }
  [[nodiscard]] const json& list(const char* key) const {
    return at(key, "a list", [](const json& value) { return value.is_array(); });
  }
  template <class Value>
  [[nodiscard]] Value named(const char* key, std::optional<Value> (*find)(std::string_view)) const {
    const std::string name = text(key);
    const auto found = find(name);
    if (!found) throw RuntimeError(where_ + "'" + key + "' has an unknown value");
    return *found;
  }

 private:
  std::int64_t in_range(const char* key, std::int64_t value, std::int64_t least, std::int64_t most) const {
    if (value >= least && value <= most) return value;
    throw RuntimeError(where_ + "'" + key + "' is " + std::to_string(value) + "; accepted: " + std::to_string(least) +
                       " to " + std::to_string(most));
  }

  const json& object_;
  std::string where_;
};

RecordedCommunication parse_communication(const json& value, std::size_t index) {
  const RecordFields fields(value, "communication " + std::to_string(index) + ": ");
  return {.number = fields.count("number"),
          .kind = fields.text("kind"),
          .name = fields.text("name"),
          .ranks = fields.ranks("ranks"),
          .group = static_cast<int>(fields.integer("group", 0, std::numeric_limits<int>::max())),
          .ordinal = fields.count("ordinal"),
          .repeats = fields.count("repeats"),
          .run = fields.count("run"),
          .step = fields.count("step"),
          .micro_batch = static_cast<int>(fields.integer("micro_batch", -1, std::numeric_limits<int>::max())),
          .bytes = fields.integer("bytes", 0, std::numeric_limits<std::int64_t>::max()),
          .id = fields.count("id"),
          .state = fields.named("state", communication_state_named),
          .issued_at = fields.number("issued_at"),
          .completed_at = fields.number("completed_at")};
}

RecordedInstruction parse_instruction(const json& value) {
  const RecordFields fields(value, "instruction: ");
  return {.task = fields.text("task"),
          .phase = fields.text("phase"),
          .micro_batch = static_cast<int>(fields.integer("micro_batch", -1, std::numeric_limits<int>::max())),
          .index = fields.count("index"),
          .kind = fields.text("kind"),
          .work = fields.text("work"),
          .name = fields.text("name"),
          .count = fields.count("count")};
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
  const json value = parse_json_text(text);
  if (value.is_discarded()) throw RuntimeError("is no JSON, or was cut off");
  const RecordFields fields(value, "");
  if (const auto version = fields.count("version"); version != kRecordVersion) {
    throw RuntimeError("has version " + std::to_string(version) + "; accepted: " + std::to_string(kRecordVersion));
  }
  FlightRecord record{.rank = static_cast<int>(fields.integer("rank", 0, kMostRanks)),
                      .rank_count = static_cast<int>(fields.integer("ranks", 1, kMostRanks)),
                      .host = fields.text("host"),
                      .process = static_cast<int>(fields.integer("process", 0, std::numeric_limits<int>::max())),
                      .time = fields.number("time"),
                      .activity = fields.named("activity", activity_named),
                      .step = fields.count("step"),
                      .run = fields.count("run")};
  if (record.rank >= record.rank_count) throw RuntimeError("'rank' is not below 'ranks'");
  if (fields.has("instruction")) record.instruction = parse_instruction(value["instruction"]);
  record.ends_step = fields.flag("ends_step");
  if (fields.has("awaited")) record.awaited = fields.count("awaited");
  record.seconds = fields.number("seconds");
  record.error = fields.text("error");
  record.is_echo = fields.flag("is_echo");
  for (const json& each : fields.list("communications")) {
    record.communications.push_back(parse_communication(each, record.communications.size()));
  }
  return record;
}

}  // namespace strata::host
