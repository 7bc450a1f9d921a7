#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/appended_file.hpp"
#include "log/run_log.hpp"

namespace strata::host {

// Records of TensorBoard's event files: a serialised message `Event` of TensorFlow, framed as a TFRecord.

/// A value under a name, such as "loss/train". TensorBoard groups names by their part before the slash.
struct Scalar {
  std::string tag;
  double value = 0;
};

/// The first record of a file. `seconds`: since 1970, as in all events.
[[nodiscard]] std::string version_record(double seconds);
/// Says that the process started, or went back: TensorBoard drops earlier records of `step` and of later steps.
[[nodiscard]] std::string start_record(double seconds, std::uint64_t step);
/// Values of a step. TensorBoard keeps them in f32.
[[nodiscard]] std::string scalar_record(double seconds, std::uint64_t step, const std::vector<Scalar>& scalars);

/// The CRC-32C (Castagnoli) of `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// Event files for TensorBoard. Each start of a run writes a new one to the run's folder. Files of earlier starts stay
/// unchanged, because TensorBoard may be reading them: a record in the new file lets it drop repeated steps.
class TensorBoardLog final : public RunLog {
 public:
  explicit TensorBoardLog(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void clear() override;
  void cut_back(std::uint64_t step, bool repeats_evaluation, std::int64_t rewinds) override;

  void step(const StepRecord& record) override;
  void ranks(const RankTimes& times) override;
  void health(const HealthRecord& record) override;
  void evaluation(const EvaluationRecord& record) override;
  void checkpoint(const CheckpointRecord& record) override;
  void summary(const TrainingSummary& summary) override;

  [[nodiscard]] const std::optional<std::string>& failure() const override;

 private:
  void open();
  void append_version();
  void append(const std::string& record);
  void write(std::uint64_t step, const std::vector<Scalar>& scalars);

  std::filesystem::path folder_;
  std::optional<AppendedFile> file_;
  /// True if the file begins with its version.
  bool has_version_ = false;
};

}  // namespace strata::host
