#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/file_io.hpp"
#include "files/host_name.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "log/run_log.hpp"
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
  return std::ranges::any_of(summary.planned_offload, [](const OffloadBytes& each) { return each != OffloadBytes{}; });
}

/// True if the line of a log stays when the run continues after `step`, having gone back `rewinds` times. Lines that
/// are no records stay.
bool is_kept(const std::string& line, std::uint64_t step, bool repeats_evaluation, std::int64_t rewinds) {
  const ordered_json record = ordered_json::parse(line, nullptr, false);
  if (!record.is_object() || !record.contains("step") || !record["step"].is_number_unsigned()) return true;
  const std::string event = record.contains("event") && record["event"].is_string() ? record["event"] : "";
  if (event == "health" && record.contains("rewinds") && record["rewinds"].is_number_integer()) {
    return record["rewinds"].get<std::int64_t>() <= rewinds;
  }
  const std::uint64_t last = repeats_evaluation && event == "eval" && step > 0 ? step - 1 : step;
  return event != "summary" && record["step"].get<std::uint64_t>() <= last;
}

}  // namespace

TrainingLog::TrainingLog(const std::filesystem::path& path)
    : file_(path, "--log-json '" + path.string() + "'"), host_(own_host_name()) {
  open();
}

void TrainingLog::open() {
  if (!file_.open()) throw ConfigurationError(*file_.failure());
}

void TrainingLog::write(ordered_json record) {
  record["time"] = utc_time();
  record["host"] = host_;
  file_.append(json_text(record) + '\n');
}

void TrainingLog::clear() { file_.clear(); }

void TrainingLog::cut_back(std::uint64_t step, bool repeats_evaluation, std::int64_t rewinds) {
  if (!std::filesystem::is_regular_file(file_.path())) return;
  std::string kept;
  bool removes = false;
  {
    std::ifstream lines(file_.path());
    for (std::string line; std::getline(lines, line);) {
      const bool stays = !lines.eof() && is_kept(line, step, repeats_evaluation, rewinds);
      if (stays) kept += line + '\n';
      removes = removes || !stays;
    }
  }
  if (!removes) return;
  // A kill in between leaves the old file.
  replace_file(std::filesystem::canonical(file_.path()), kept);
  open();
}

void TrainingLog::step(const StepRecord& record) {
  ordered_json line{{"step", record.step},
                    {"loss", record.loss},
                    {"grad_norm", record.gradient_norm},
                    {"lr", record.learning_rate},
                    {"tokens_per_second", record.tokens_per_second},
                    {"model_flops_per_second", record.model_flops_per_second},
                    {"step_seconds", record.seconds},
                    {"wait_seconds", record.wait_seconds},
                    {"data_wait_seconds", record.data_wait_seconds},
                    {"arena_bytes", record.memory.arena_bytes},
                    {"rss_bytes", record.memory.resident_bytes}};
  if (record.utilisation) line["mfu"] = *record.utilisation;
  for (const GroupNorm& each : record.group_norms) line["grad_norms"][each.group] = each.norm;
  for (const Metric& each : record.metrics) line["metrics"][each.name] = each.value;
  if (record.loss_scale) {
    line["loss_scale"] = *record.loss_scale;
    line["skipped"] = record.skipped;
  }
  if (!record.fault.empty()) {
    line["skipped"] = true;
    line["fault"] = record.fault;
  }
  write(std::move(line));
}

void TrainingLog::health(const HealthRecord& record) {
  ordered_json line{{"event", "health"},      {"step", record.step}, {"action", action_word(record.action)},
                    {"fault", record.reason}, {"loss", record.loss}, {"grad_norm", record.gradient_norm}};
  if (record.action == HealthAction::rewind) {
    cut_back(record.back_to, false, record.rewinds - 1);
    line["back_to"] = record.back_to;
    line["checkpoint"] = record.checkpoint.string();
    line["left_out_samples"] = {record.left_out.begin, record.left_out.end};
    line["rewinds"] = record.rewinds;
  }
  write(std::move(line));
}

void TrainingLog::ranks(const RankTimes& times) {
  write({{"event", "ranks"},
         {"step", times.step},
         {"step_seconds", times.seconds},
         {"wait_seconds", times.wait_seconds},
         {"data_wait_seconds", times.data_wait_seconds}});
}

void TrainingLog::evaluation(const EvaluationRecord& record) {
  ordered_json line{{"event", "eval"},
                    {"step", record.step},
                    {"loss", record.loss},
                    {"tokens", record.tokens},
                    {"data_wait_seconds", record.data_wait_seconds},
                    {"weights", record.of_average ? "average" : "trained"}};
  for (const Metric& each : record.metrics) line["metrics"][each.name] = each.value;
  write(std::move(line));
}

void TrainingLog::checkpoint(const CheckpointRecord& record) {
  write({{"event", "checkpoint"},
         {"step", record.step},
         {"path", record.path.string()},
         {"bytes", record.bytes},
         {"pause_seconds", record.pause_seconds},
         {"wait_seconds", record.wait_seconds},
         {"write_seconds", record.write_seconds}});
}

void TrainingLog::summary(const TrainingSummary& summary) {
  ordered_json line{{"event", "summary"},
                    {"step", summary.step},
                    {"median_tokens_per_second", summary.median_tokens_per_second},
                    {"median_step_seconds", summary.median_step_seconds},
                    {"peak_rss_bytes", summary.peak_resident_bytes},
                    {"planned_peak_bytes", summary.planned_peak_bytes},
                    {"arena_peak_bytes", summary.arena_peak_bytes}};
  if (summary.predicted_step_seconds) line["predicted_step_seconds"] = *summary.predicted_step_seconds;
  if (offloads(summary)) {
    line["planned_offload_bytes"] = to_json(summary.planned_offload);
    line["offload_peak_bytes"] = to_json(summary.offload_peak);
  }
  if (!summary.planned_checkpoint_bytes.empty()) line["planned_checkpoint_bytes"] = summary.planned_checkpoint_bytes;
  if (summary.evaluation_loss) line["eval_loss"] = *summary.evaluation_loss;
  for (const Metric& each : summary.evaluation_metrics) line["eval_metrics"][each.name] = each.value;
  write(std::move(line));
}

void TrainingLog::message(const LogMessage& message) {
  write({{"event", message.is_error ? "error" : "warning"}, {"text", message.text}});
}

}  // namespace strata::host
