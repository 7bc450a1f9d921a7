#include <algorithm>
#include <boost/crc.hpp>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include "files/protobuf_message.hpp"
#include "files/text_format.hpp"
#include "log/run_log.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// TensorBoard finds files by "tfevents" in their names and reads them in the order of their names. The number between
/// the two is a time in seconds. The ending is ours, so that only our own files are removed.
constexpr std::string_view kNameBegin = "events.out.tfevents.";
constexpr std::string_view kNameEnd = ".strata";

/// The number in the name of an event file.
std::optional<std::int64_t> number_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(kNameBegin) || !name.ends_with(kNameEnd)) return std::nullopt;
  return parse_number<std::int64_t>(
      std::string_view(name).substr(kNameBegin.size(), name.size() - kNameBegin.size() - kNameEnd.size()));
}

/// The event files in `folder` with their numbers.
std::vector<std::pair<std::int64_t, fs::path>> event_files(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (const auto number = number_of(entry.path())) files.emplace_back(*number, entry.path());
  }
  return files;
}

/// Of an even number of values, the lower one of the two in the middle.
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void append_memory(const StepMemory& memory, std::vector<Scalar>& scalars) {
  scalars.push_back({"memory/planned_bytes", static_cast<double>(memory.planned_bytes)});
  scalars.push_back({"memory/arena_bytes", static_cast<double>(memory.arena_bytes)});
  scalars.push_back({"memory/resident_bytes", static_cast<double>(memory.resident_bytes)});
}

// The field numbers are those of event.proto and summary.proto of TensorFlow.

/// Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; SessionLog session_log =
/// 7; }
ProtobufMessage event(double seconds, std::uint64_t step) { return ProtobufMessage().f64(1, seconds).number(2, step); }

/// TFRecord stores checksums in this form, because a checksum over data with its own checksum is useless.
std::uint32_t masked(std::uint32_t checksum) { return std::rotr(checksum, 15) + 0xa282ead8U; }

/// TFRecord { uint64 length; uint32 masked checksum of it; byte data[length]; uint32 masked checksum of the data; }
std::string framed(const ProtobufMessage& message) {
  std::string record;
  append_little_endian(record, std::uint64_t{message.text().size()});
  append_little_endian(record, masked(crc32c(record)));
  record += message.text();
  append_little_endian(record, masked(crc32c(message.text())));
  return record;
}

}  // namespace

void TensorBoardLog::open() {
  auto number = static_cast<std::int64_t>(seconds_since_1970());
  for (const auto& [known, path] : event_files(folder_)) number = std::max(number, known + 1);
  const fs::path path = folder_ / (std::string(kNameBegin) + std::to_string(number) + std::string(kNameEnd));
  file_.emplace(path, "log.tensorboard: '" + path.string() + "'");
  has_version_ = false;
  if (file_->open()) append_version();
}

void TensorBoardLog::clear() {
  std::error_code ignored;
  for (const auto& [number, path] : event_files(folder_)) fs::remove(path, ignored);
  open();
}

void TensorBoardLog::cut_back(std::uint64_t step, bool /*repeats_evaluation*/, std::int64_t /*rewinds*/) {
  if (!file_) open();
  // A repeated evaluation of `step` has the value that it had before.
  append(start_record(seconds_since_1970(), step + 1));
}

void TensorBoardLog::step(const StepRecord& record) {
  std::vector<Scalar> scalars{{"loss/train", record.loss},
                              {"optimizer/learning_rate", record.learning_rate},
                              {"optimizer/gradient_norm", record.gradient_norm},
                              {"speed/tokens_per_second", record.tokens_per_second},
                              {"speed/model_flops_per_second", record.model_flops_per_second},
                              {"time/step_seconds", record.seconds},
                              {"time/wait_seconds", record.wait_seconds},
                              {"time/data_wait_seconds", record.data_wait_seconds}};
  if (record.utilisation) scalars.push_back({"speed/model_flops_utilisation", *record.utilisation});
  if (record.loss_scale) scalars.push_back({"optimizer/loss_scale", *record.loss_scale});
  append_memory(record.memory, scalars);
  for (const GroupNorm& each : record.group_norms) scalars.push_back({"gradient_norm/" + each.group, each.norm});
  for (const Metric& each : record.metrics) scalars.push_back({"metric/" + each.name, each.value});
  write(record.step, scalars);
}

void TensorBoardLog::ranks(const RankTimes& times) {
  std::vector<double> own;
  for (std::size_t rank = 0; rank < times.seconds.size(); ++rank) own.push_back(times.own_seconds(rank));
  const auto slowest = std::ranges::max_element(own);
  write(times.step, {{"ranks/slowest_own_seconds", *slowest},
                     {"ranks/slowest_rank", static_cast<double>(slowest - own.begin())},
                     {"ranks/median_own_seconds", median_of(own)},
                     {"ranks/longest_wait_seconds", *std::ranges::max_element(times.wait_seconds)}});
}

void TensorBoardLog::health(const HealthRecord& record) {
  if (record.action == HealthAction::rewind) cut_back(record.back_to, false, record.rewinds - 1);
}

void TensorBoardLog::evaluation(const EvaluationRecord& record) {
  std::vector<Scalar> scalars{{"loss/validation", record.loss}};
  for (const Metric& each : record.metrics) scalars.push_back({"validation_metric/" + each.name, each.value});
  write(record.step, scalars);
}

void TensorBoardLog::checkpoint(const CheckpointRecord& record) {
  write(record.step,
        {{"checkpoint/pause_seconds", record.pause_seconds}, {"checkpoint/write_seconds", record.write_seconds}});
}

void TensorBoardLog::summary(const TrainingSummary& /*summary*/) {}

const std::optional<std::string>& TensorBoardLog::failure() const {
  static const std::optional<std::string> none;
  return file_ ? file_->failure() : none;
}

void TensorBoardLog::append_version() { has_version_ = file_->append(version_record(seconds_since_1970())); }

void TensorBoardLog::append(const std::string& record) {
  // TensorBoard understands the other records behind this one only. It is missing if the disk was full.
  if (!has_version_) append_version();
  if (has_version_) file_->append(record);
}

void TensorBoardLog::write(std::uint64_t step, const std::vector<Scalar>& scalars) {
  if (file_) append(scalar_record(seconds_since_1970(), step, scalars));
}

std::string version_record(double seconds) {
  // From version 2 on, readers understand start_record().
  return framed(event(seconds, 0).bytes(3, "brain.Event:2"));
}

std::string start_record(double seconds, std::uint64_t step) {
  // SessionLog { SessionStatus status = 1; } with START = 1.
  return framed(event(seconds, step).bytes(7, ProtobufMessage().number(1, 1).text()));
}

std::string scalar_record(double seconds, std::uint64_t step, const std::vector<Scalar>& scalars) {
  // Summary { repeated Value value = 1; } with Value { string tag = 1; float simple_value = 2; }.
  ProtobufMessage summary;
  for (const Scalar& each : scalars) summary.bytes(1, ProtobufMessage().bytes(1, each.tag).f32(2, each.value).text());
  return framed(event(seconds, step).bytes(5, summary.text()));
}

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> checksum;
  checksum.process_bytes(bytes.data(), bytes.size());
  return checksum.checksum();
}

}  // namespace strata::host
