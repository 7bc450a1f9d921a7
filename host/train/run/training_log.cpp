#include "train/run/training_log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "strata/error.hpp"

namespace strata::host {

using nlohmann::ordered_json;

namespace {

ordered_json to_json(const std::vector<OffloadBytes>& bytes) {
  ordered_json ranks = ordered_json::array();
  for (const OffloadBytes& each : bytes) ranks.push_back({{"host", each.host}, {"file", each.file}});
  return ranks;
}

bool offloads(const TrainingSummary& summary) {
  return std::any_of(summary.planned_offload.begin(), summary.planned_offload.end(),
                     [](const OffloadBytes& each) { return each != OffloadBytes{}; });
}

}  // namespace

TrainingLog::TrainingLog(const std::filesystem::path& path, bool append)
    : path_(path), stream_(path, append ? std::ios::app : std::ios::trunc) {
  if (!stream_)
    throw ConfigurationError("--log-json '" + path.string() + "': cannot be opened: " + std::strerror(errno));
}

void TrainingLog::step(const StepRecord& record) {
  ordered_json line{{"step", record.step},
                    {"loss", record.loss},
                    {"grad_norm", record.gradient_norm},
                    {"lr", record.learning_rate},
                    {"tokens_per_second", record.tokens_per_second},
                    {"step_seconds", record.seconds},
                    {"wait_seconds", record.wait_seconds},
                    {"data_wait_seconds", record.data_wait_seconds}};
  if (record.loss_scale) {
    line["loss_scale"] = *record.loss_scale;
    line["skipped"] = record.skipped;
  }
  write(line.dump());
}

void TrainingLog::evaluation(const EvaluationRecord& record) {
  write(ordered_json{{"event", "eval"},
                     {"step", record.step},
                     {"loss", record.loss},
                     {"tokens", record.tokens},
                     {"data_wait_seconds", record.data_wait_seconds},
                     {"weights", record.of_average ? "average" : "trained"}}
            .dump());
}

void TrainingLog::checkpoint(const CheckpointRecord& record) {
  write(ordered_json{{"event", "checkpoint"},
                     {"step", record.step},
                     {"path", record.path.string()},
                     {"bytes", record.bytes},
                     {"pause_seconds", record.pause_seconds},
                     {"wait_seconds", record.wait_seconds},
                     {"write_seconds", record.write_seconds}}
            .dump());
}

void TrainingLog::summary(const TrainingSummary& summary) {
  ordered_json line{{"event", "summary"},
                    {"step", summary.step},
                    {"median_tokens_per_second", summary.median_tokens_per_second},
                    {"peak_rss_bytes", summary.peak_resident_bytes},
                    {"planned_peak_bytes", summary.planned_peak_bytes},
                    {"arena_peak_bytes", summary.arena_peak_bytes}};
  if (offloads(summary)) {
    line["planned_offload_bytes"] = to_json(summary.planned_offload);
    line["offload_peak_bytes"] = to_json(summary.offload_peak);
  }
  if (!summary.planned_checkpoint_bytes.empty()) line["planned_checkpoint_bytes"] = summary.planned_checkpoint_bytes;
  if (summary.evaluation_loss) line["eval_loss"] = *summary.evaluation_loss;
  write(line.dump());
}

void TrainingLog::write(const std::string& line) {
  std::error_code ignored;
  const std::uintmax_t begin = std::filesystem::file_size(path_, ignored);
  stream_ << line << '\n' << std::flush;
  if (stream_) return;
  failure_ = "--log-json '" + path_.string() + "': cannot be written: " + std::strerror(errno);
  drop_line(begin);
}

void TrainingLog::drop_line(std::uintmax_t begin) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error)) return stream_.clear();
  stream_.close();
  std::filesystem::resize_file(path_, begin, error);
  stream_.clear();
  stream_.open(path_, std::ios::app);
}

}  // namespace strata::host
