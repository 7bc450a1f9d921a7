#include "train/progress.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include "train/process_memory.hpp"

namespace strata::host {
namespace {

template <class... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), pattern, arguments...);
  return text.data();
}

/// `value` in the largest of `units`, each `base` times the one before, with three digits.
template <std::size_t N>
std::string scaled(double value, double base, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  while (value >= base * 0.9995 && unit + 1 < N) {
    value /= base;
    ++unit;
  }
  const int decimals = unit == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return format("%.*f%s", decimals, value, units[unit]);
}

constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

std::string short_number(double value) { return scaled(value, 1000, std::array{"", "k", "M", "G", "T"}); }

std::string short_bytes(std::int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, std::array{" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string short_duration(double seconds) {
  const long long total = std::llround(seconds);
  if (total < 60) return format("%llds", total);
  if (total < 3600) return format("%lldm%02llds", total / 60, total % 60);
  if (total < 86400) return format("%lldh%02lldm", total / 3600, total % 3600 / 60);
  return format("%lldd%02lldh", total / 86400, total % 86400 / 3600);
}

Progress::Progress(std::ostream& stream, Style style, std::uint64_t first_step, std::uint64_t steps)
    : stream_(stream), style_(style), first_step_(first_step), steps_(steps) {}

Progress::~Progress() {
  if (!open_line_.empty()) stream_ << '\n' << std::flush;
}

std::string Progress::line(const StepRecord& record) const {
  const auto done = static_cast<double>(record.step - first_step_);
  const double left = seconds_ / done * static_cast<double>(steps_ - record.step);
  return "step " + std::to_string(record.step) + "/" + std::to_string(steps_) +
         format("  loss %.4f  norm %.3f  lr %.2e  ", record.loss, record.gradient_norm, record.learning_rate) +
         short_number(record.tokens_per_second) + " tokens/s  " + short_bytes(resident_bytes()) + "  " +
         short_duration(left) + " left";
}

void Progress::step(const StepRecord& record) {
  seconds_ += record.seconds;
  if (style_.terminal) {
    open_line_ = line(record);
    stream_ << kClearLine << open_line_ << std::flush;
    return;
  }
  const bool due = record.step % static_cast<std::uint64_t>(style_.every) == 0;
  if (due || record.step == steps_ || record.step == first_step_ + 1) stream_ << line(record) << '\n' << std::flush;
}

void Progress::evaluation(const EvaluationRecord& record) {
  note(format("step %llu  validation loss %.4f nats per token", static_cast<unsigned long long>(record.step),
              record.loss));
}

void Progress::note(const std::string& text) {
  stream_ << (open_line_.empty() ? "" : kClearLine) << text << '\n' << open_line_ << std::flush;
}

}  // namespace strata::host
