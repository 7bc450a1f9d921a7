#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace strata::host {

/// A point of a curve.
struct CurvePoint {
  double x = 0;
  double y = 0;
};

/// A field of a run's log by step, or by what passed since the run's start.
struct RunCurve {
  std::string name;
  /// The file that was read.
  std::filesystem::path log;
  std::vector<CurvePoint> points;
  /// Values of validations, if the field is the loss or a metric.
  std::vector<CurvePoint> evaluations;
  /// True if the last line is torn, which a crash leaves, and was left out.
  bool is_torn = false;
};

/// The quantity on the x axis.
enum class CurveX : std::uint8_t {
  step,
  tokens,  ///< elements that the loss counted, in all steps so far
  seconds  ///< of all steps so far
};

/// The field and the x axis to read from a log.
struct CurveRequest {
  /// A key of the steps' records, such as "loss", or one of a table in them, such as "grad_norms.h.0".
  std::string field;
  CurveX x = CurveX::step;
};

/// Reads a log that --log-json has written, or the only *.jsonl file in a folder. Steps without the field, or with a
/// value that is not finite, have no point. \throws
/// ConfigurationError that names file and line if the log cannot be read, or if no step has the field.
[[nodiscard]] RunCurve read_run_curve(const std::filesystem::path& run, const CurveRequest& request);

/// Each point's y becomes the mean of its own and of the `count` - 1 before it.
[[nodiscard]] std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points, int count);

}  // namespace strata::host
