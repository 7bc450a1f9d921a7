#include <cmath>
#include <cstdlib>
#include <sstream>

#include "files/file_io.hpp"
#include "files/host_name.hpp"
#include "files/text_format.hpp"
#include "log/run_log.hpp"
#include "setup/launched_process.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Files that are out of date after a second need not survive a crash of the machine.
class UnsyncedDisk final : public Disk {
 public:
  int sync(int /*descriptor*/) const override { return 0; }
};

/// The file is replaced as a whole, so it must not be a device, a pipe or a folder.
void require_replaceable(const std::string& file, const char* key) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code ignored;
  const std::filesystem::file_status found = std::filesystem::symlink_status(file, ignored);
  if (!file.empty() && std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    throw ConfigurationError(std::string(key) + ": '" + file + "' is no regular file; accepted: one, or a new name");
  }
  if (file.empty() || folder.empty() || std::filesystem::is_directory(folder, ignored)) return;
  throw ConfigurationError(std::string(key) + ": '" + file + "': there is no folder '" + folder.string() + "'");
}

/// A label's value, in which three characters are escaped.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') result += '\\';
    result += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return result;
}

/// The text format of Prometheus.
class MetricsText {
 public:
  explicit MetricsText(std::string labels) : labels_(std::move(labels)) { text_.precision(15); }

  void gauge(const std::string& name, const std::string& help, double value) { add(name, "gauge", help, value); }
  void counter(const std::string& name, const std::string& help, double value) { add(name, "counter", help, value); }
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  void add(const std::string& name, const char* type, const std::string& help, double value) {
    text_ << "# HELP strata_" << name << ' ' << help << "\n# TYPE strata_" << name << ' ' << type << "\nstrata_" << name
          << labels_ << ' ';
    if (std::isfinite(value)) {
      text_ << value << '\n';
    } else {
      text_ << (std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf") << '\n';
    }
  }

  std::string labels_;
  std::ostringstream text_;
};

}  // namespace

MetricsFile::MetricsFile(const RunConfiguration& configuration, int restarts)
    : metrics_(configuration.log.metrics),
      heartbeat_(configuration.log.heartbeat),
      run_(configuration.run.name),
      host_(own_host_name()),
      last_step_(configuration.run.last_step()),
      restarts_(restarts) {
  require_replaceable(metrics_, "log.metrics");
  require_replaceable(heartbeat_, "log.heartbeat");
}

void MetricsFile::cut_back(std::uint64_t step, bool /*repeats_evaluation*/, std::int64_t rewinds) {
  step_.step = step;
  rewinds_ = rewinds;
  write(true);
}

void MetricsFile::step(const StepRecord& record) {
  step_ = record;
  write(false);
}

void MetricsFile::health(const HealthRecord& record) {
  if (record.action != HealthAction::rewind) return;
  rewinds_ = record.rewinds;
  step_.step = record.back_to;
  write(true);
}

void MetricsFile::evaluation(const EvaluationRecord& record) {
  validation_loss_ = record.loss;
  write(true);
}

void MetricsFile::checkpoint(const CheckpointRecord& record) {
  checkpoint_step_ = record.step;
  checkpoint_time_ = seconds_since_1970();
  write(true);
}

void MetricsFile::summary(const TrainingSummary& /*summary*/) {
  is_running_ = false;
  write(true);
}

void MetricsFile::message(const LogMessage& message) {
  if (!message.is_error) return;
  is_running_ = false;
  write(true);
}

void MetricsFile::write(bool at_once) {
  const auto now = std::chrono::steady_clock::now();
  if (!at_once && written_ && now - *written_ < kPause) return;
  written_ = now;
  if (!metrics_.empty()) replace(metrics_, "log.metrics", metrics_text());
  if (!heartbeat_.empty()) {
    replace(heartbeat_, "log.heartbeat", utc_time() + " step " + std::to_string(step_.step) + "\n");
  }
}

void MetricsFile::replace(const std::string& path, const char* key, const std::string& text) {
  try {
    replace_file(path, text, UnsyncedDisk());
  } catch (const Error& error) {
    failure_ = std::string(key) + ": " + error.what();
  }
}

std::string MetricsFile::metrics_text() const {
  MetricsText text("{run=\"" + escaped(run_) + "\",host=\"" + escaped(host_) + "\"}");
  text.gauge("running", "1 while the run trains, 0 after its end or failure.", is_running_ ? 1 : 0);
  text.gauge("time_seconds", "Time of these values, since 1970.", seconds_since_1970());
  text.gauge("step", "Steps so far.", static_cast<double>(step_.step));
  text.gauge("steps", "Steps of the whole run.", static_cast<double>(last_step_));
  text.counter("restarts_total", "Times that a launcher has started the run again.", restarts_);
  text.counter("rewinds_total", "Times that the run went back to a checkpoint because of a bad step.",
               static_cast<double>(rewinds_));
  if (step_.seconds > 0) {
    text.gauge("loss", "Loss of the last step.", step_.loss);
    text.gauge("gradient_norm", "Norm of the gradient before clipping.", step_.gradient_norm);
    text.gauge("learning_rate", "Learning rate of the last step.", step_.learning_rate);
    text.gauge("tokens_per_second", "Elements that the loss counts, such as tokens, a second.",
               step_.tokens_per_second);
    text.gauge("step_seconds", "Duration of the last step.", step_.seconds);
    text.gauge("arena_bytes", "Device memory of rank 0 that it has used so far.",
               static_cast<double>(step_.memory.arena_bytes));
    text.gauge("resident_bytes", "Host memory of the process of rank 0.",
               static_cast<double>(step_.memory.resident_bytes));
  }
  if (validation_loss_) text.gauge("validation_loss", "Loss of the last evaluation.", *validation_loss_);
  if (checkpoint_step_) {
    text.gauge("checkpoint_step", "Steps of the last checkpoint of this start.",
               static_cast<double>(*checkpoint_step_));
    text.gauge("checkpoint_time_seconds", "Time when it was complete, since 1970.", checkpoint_time_);
  }
  return text.text();
}

int restarts_so_far() {
  for (const char* name : {kRestarts, "SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"}) {
    if (const char* count = std::getenv(name)) return std::atoi(count);
  }
  return 0;
}

}  // namespace strata::host
