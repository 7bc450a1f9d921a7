#include "reports/run_curve.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "strata/error.hpp"
#include "strata/options.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kLoss = "loss";
/// Larger numbers are not shown, because their differences may not be finite.
constexpr double kLargestShown = 1e300;

/// The log that a run's argument stands for.
fs::path find_log(const fs::path& run) {
  if (!fs::is_directory(run)) return run;
  std::vector<fs::path> logs;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    if (entry.path().extension() == ".jsonl" && entry.is_regular_file()) logs.push_back(entry.path());
  }
  if (logs.size() == 1) return logs.front();
  throw ConfigurationError("'" + run.string() + "' has " + (logs.empty() ? "no" : "more than one") +
                           " file *.jsonl; accepted: a folder with one, or a file that --log-json has written");
}

/// The name of a log is that of its file, or of its folder if it was found there.
std::string name_of(const fs::path& run, const fs::path& log) {
  if (run == log) return log.stem().string();
  const fs::path folder = fs::absolute(run).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

/// Reads a log line by line.
class CurveReader {
 public:
  CurveReader(fs::path log, const CurveRequest& request) : log_(std::move(log)), request_(request) {}

  RunCurve read() {
    std::ifstream stream(log_);
    if (!stream) throw ConfigurationError("'" + log_.string() + "': cannot be opened: " + std::strerror(errno));
    for (std::string line; std::getline(stream, line);) {
      ++line_;
      const json record = json::parse(line, nullptr, false);
      if (record.is_object()) {
        take(record);
      } else if (!stream.eof()) {
        refuse("found no JSON object; accepted: a log that --log-json has written");
      } else {
        curve_.is_torn = true;
      }
    }
    if (stream.bad()) throw ConfigurationError("'" + log_.string() + "': cannot be read: " + std::strerror(errno));
    if (curve_.points.empty()) refuse_field();
    return std::move(curve_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigurationError(log_.string() + ":" + std::to_string(line_) + ": " + what);
  }

  [[noreturn]] void refuse_field() const {
    // A log may have norms of hundreds of groups.
    std::map<std::string, std::size_t> tables;
    std::vector<std::string> known;
    for (const std::string& each : fields_) {
      const std::size_t dot = each.find('.');
      const bool is_first_of_table = dot != std::string::npos && tables[each.substr(0, dot)]++ == 0;
      if (dot == std::string::npos || is_first_of_table) known.push_back(each);
    }
    std::string message = "'" + log_.string() + "' has no step with a number '" + request_.field + "'";
    const std::string near = nearest(request_.field, {fields_.begin(), fields_.end()});
    if (!near.empty()) message += "; did you mean '" + near + "'?";
    message += "; accepted: " + (known.empty() ? "a log with steps" : join(known, ", "));
    for (const auto& [table, count] : tables) {
      if (count > 1) message += ", and " + std::to_string(count - 1) + " more of " + table;
    }
    throw ConfigurationError(message);
  }

  /// A number that the record must have.
  [[nodiscard]] double number(const json& record, const char* key) const {
    const auto found = record.find(key);
    if (found != record.end() && found->is_number()) return found->get<double>();
    refuse("found no number '" + std::string(key) + "'; accepted: a log that --log-json has written");
  }

  void take(const json& record) {
    const auto event = record.find("event");
    if (event == record.end()) return take_step(record);
    const bool is_evaluated = request_.field == kLoss || request_.field.starts_with("metrics.");
    if (*event == "eval" && is_evaluated) {
      if (const auto value = field(record)) {
        curve_.evaluations.push_back({x_after(number(record, "step")), *value});
      }
    }
  }

  void take_step(const json& record) {
    const double step = number(record, "step");
    if (request_.x != CurveX::step) {
      const double seconds = number(record, "step_seconds");
      passed_ += request_.x == CurveX::seconds ? seconds : std::round(number(record, "tokens_per_second") * seconds);
    }
    note_fields(record);
    if (const auto value = field(record)) curve_.points.push_back({x_after(step), *value});
  }

  [[nodiscard]] double x_after(double step) const {
    const double x = request_.x == CurveX::step ? step : passed_;
    if (std::abs(x) <= kLargestShown) return x;
    refuse(
        "found a step, or a sum of tokens or seconds, that is too large; accepted: a log that --log-json has written");
  }

  [[nodiscard]] static std::optional<double> finite(const json::const_iterator& found, const json& record) {
    if (found == record.end() || !found->is_number()) return std::nullopt;
    const auto value = found->get<double>();
    return std::abs(value) <= kLargestShown ? std::optional(value) : std::nullopt;
  }

  [[nodiscard]] std::optional<double> field(const json& record) const {
    if (record.contains(request_.field)) return finite(record.find(request_.field), record);
    const std::size_t dot = request_.field.find('.');
    const auto table = record.find(request_.field.substr(0, dot));
    if (dot == std::string::npos || table == record.end() || !table->is_object()) return std::nullopt;
    return finite(table->find(request_.field.substr(dot + 1)), *table);
  }

  void note_fields(const json& record) {
    for (const auto& [key, value] : record.items()) {
      if (value.is_number()) fields_.insert(key);
      if (!value.is_object()) continue;
      for (const auto& [inner, number] : value.items()) {
        if (number.is_number()) fields_.insert(key + "." + inner);
      }
    }
  }

  fs::path log_;
  const CurveRequest& request_;
  RunCurve curve_;
  /// The numbers that steps have.
  std::set<std::string> fields_;
  std::size_t line_ = 0;
  /// Tokens or seconds of the steps so far.
  double passed_ = 0;
};

}  // namespace

RunCurve read_run_curve(const std::filesystem::path& run, const CurveRequest& request) {
  const fs::path log = find_log(run);
  RunCurve curve = CurveReader(log, request).read();
  curve.log = log;
  curve.name = name_of(run, log);
  return curve;
}

std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points, int count) {
  std::vector<double> sums{0};
  for (const CurvePoint& each : points) sums.push_back(sums.back() + each.y);
  std::vector<CurvePoint> result = points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t taken = std::min(i + 1, static_cast<std::size_t>(count));
    result[i].y = (sums[i + 1] - sums[i + 1 - taken]) / static_cast<double>(taken);
  }
  return result;
}

}  // namespace strata::host
