#include "log/progress.hpp"

#include <cmath>
#include <utility>

#include "files/phase_times.hpp"
#include "files/text_format.hpp"

namespace strata::host {
namespace {

constexpr const char* kClearLine = "\r\x1b[K";

/// A loss that counts no element is NaN.
std::string loss_text(double loss) { return std::isnan(loss) ? "-" : format_line("%.4f", loss); }

}  // namespace

Progress::Progress(std::ostream& stream, Style style, std::uint64_t first_step, std::uint64_t steps)
    : stream_(stream), style_(std::move(style)), first_step_(first_step), steps_(steps) {}

Progress::~Progress() {
  if (!open_line_.empty()) stream_ << '\n' << std::flush;
}

std::string Progress::line(const StepRecord& record) const {
  const auto done = static_cast<double>(record.step - first_step_);
  const double left = seconds_ / done * static_cast<double>(steps_ - record.step);
  return "step " + std::to_string(record.step) + "/" + std::to_string(steps_) + "  loss " + loss_text(record.loss) +
         format_line("  norm %.3f  lr %.2e", record.gradient_norm, record.learning_rate) +
         metrics_text(record.metrics) + "  " + short_number(record.tokens_per_second) + " " + style_.unit + "s/s  " +
         short_bytes(resident_bytes()) + "  " + short_duration(left) + " left";
}

void Progress::step(const StepRecord& record) {
  seconds_ += record.seconds;
  if (record.skipped) {
    note("step " + std::to_string(record.step) + " skipped: " +
         (record.fault.empty()
              ? format_line("the gradient is not finite at a loss scale of %g", record.loss_scale.value_or(1))
              : record.fault));
  }
  if (style_.terminal) {
    open_line_ = line(record);
    stream_ << kClearLine << open_line_ << std::flush;
    return;
  }
  const bool due = record.step % static_cast<std::uint64_t>(style_.every) == 0;
  if (due || record.step == steps_ || record.step == first_step_ + 1) stream_ << line(record) << '\n' << std::flush;
}

void Progress::evaluation(const EvaluationRecord& record) {
  note("step " + std::to_string(record.step) + "  validation loss " + (record.of_average ? "of the average " : "") +
       loss_text(record.loss) + " nats per " + style_.unit + metrics_text(record.metrics));
}

void Progress::note(const std::string& text) {
  stream_ << (open_line_.empty() ? "" : kClearLine) << message_text(text) << '\n' << open_line_ << std::flush;
}

}  // namespace strata::host
