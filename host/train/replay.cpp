#include "train/replay.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/text_format.hpp"
#include "runtime/element.hpp"
#include "runtime/tensor_part.hpp"
#include "strata/error.hpp"
#include "train/run_recorder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// One time that the steps were run.
struct Pass {
  std::vector<StepRecord> steps;
  std::optional<std::string> error;
  /// Empty if an error ended the pass, or if another process has the first rank.
  fs::path checkpoint;
};

/// `world`: the run's ranks, or null to make them.
Pass run_pass(const RunSetup& setup, const DataSource& source, const CheckpointReader& checkpoint, std::uint64_t steps,
              const fs::path& folder, std::unique_ptr<World> world = nullptr) {
  RunRecorder recorder(checkpoint.run().step + steps);
  const CheckpointSettings settings{.directory = folder, .mode = CheckpointMode::foreground};
  Trainer trainer(setup, source, settings, {checkpoint.directory()}, recorder, std::move(world));
  Pass pass;
  try {
    trainer.run();
  } catch (const RuntimeError& error) {
    pass.error = error.what();
  }
  pass.steps = recorder.steps;
  pass.checkpoint = recorder.last_checkpoint();
  return pass;
}

bool same_bits(double first, double second) {
  return std::bit_cast<std::uint64_t>(first) == std::bit_cast<std::uint64_t>(second);
}

/// Compares a number that two sources give for a step.
std::optional<std::string> difference_of(std::uint64_t step, const char* what, double first, double second) {
  if (same_bits(first, second)) return std::nullopt;
  return "step " + std::to_string(step) + ": the " + what + " is " + exact_number(first) + " and " +
         exact_number(second);
}

std::optional<std::string> difference_of_steps(const std::vector<StepRecord>& first,
                                               const std::vector<StepRecord>& second) {
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    const std::uint64_t step = first[i].step;
    if (auto found = difference_of(step, "loss", first[i].loss, second[i].loss)) return found;
    if (auto found = difference_of(step, "gradient norm", first[i].gradient_norm, second[i].gradient_norm))
      return found;
  }
  return std::nullopt;
}

using Bytes = std::vector<std::byte>;

/// All of a tensor.
Bytes read_whole(const CheckpointReader& checkpoint, const std::string& name, const ManifestTensor& tensor) {
  const TensorPart whole = TensorPart::whole(tensor.shape);
  Bytes bytes(static_cast<std::size_t>(whole.elements()) * size_of(tensor.dtype));
  checkpoint.read(name, whole, tensor.dtype, bytes.data());
  return bytes;
}

std::optional<std::string> difference_of_values(const std::string& name, DType dtype, const Bytes& first,
                                                const Bytes& second) {
  if (first == second) return std::nullopt;
  const std::size_t size = size_of(dtype);
  std::size_t count = 0;
  std::optional<std::size_t> place;
  for (std::size_t i = 0; i < first.size() / size; ++i) {
    if (std::memcmp(first.data() + i * size, second.data() + i * size, size) == 0) continue;
    ++count;
    if (!place) place = i;
  }
  const auto index = static_cast<std::int64_t>(*place);
  return "'" + name + "' differs in " + std::to_string(count) + " of " + std::to_string(first.size() / size) +
         " elements; element " + std::to_string(index) + " is " +
         exact_number(load_element(dtype, first.data(), index)) + " and " +
         exact_number(load_element(dtype, second.data(), index));
}

/// Compares the tensors of two checkpoints bit for bit, whatever layouts wrote them. \return the first difference, such
/// as "'wte' differs in 3 of 4096 elements; element 17 is 0.25 and 0.5". Empty if there is none.
std::optional<std::string> find_difference(const CheckpointReader& first, const CheckpointReader& second) {
  const auto& tensors = first.manifest().tensors;
  const auto& others = second.manifest().tensors;
  for (const auto& [name, tensor] : tensors) {
    const auto other = others.find(name);
    if (other == others.end()) return "'" + name + "' is in the first only";
    if (other->second.dtype != tensor.dtype || other->second.shape != tensor.shape) {
      return "'" + name + "' has another type or shape";
    }
    auto difference = difference_of_values(name, tensor.dtype, read_whole(first, name, tensor),
                                           read_whole(second, name, other->second));
    if (difference) return difference;
  }
  for (const auto& [name, tensor] : others) {
    if (!tensors.contains(name)) return "'" + name + "' is in the second only";
  }
  return std::nullopt;
}

std::optional<std::string> difference_of_passes(const Pass& first, const Pass& second) {
  if (auto found = difference_of_steps(first.steps, second.steps)) return found;
  if (first.error != second.error) {
    return "one ended with '" + first.error.value_or("no error") + "', the other with '" +
           second.error.value_or("no error") + "'";
  }
  if (first.checkpoint.empty() || second.checkpoint.empty()) return std::nullopt;
  return find_difference(CheckpointReader(first.checkpoint), CheckpointReader(second.checkpoint));
}

/// A folder that is removed when its owner ends.
class ScratchFolder {
 public:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) { fs::remove_all(path_); }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

 private:
  fs::path path_;
};

void require_steps(const RunSetup& setup, const CheckpointReader& checkpoint, std::uint64_t steps) {
  const auto all = static_cast<std::uint64_t>(setup.configuration.run.steps);
  const std::uint64_t done = checkpoint.run().step;
  if (done + steps <= all) return;
  throw ConfigurationError(
      "checkpoint '" + checkpoint.directory().string() + "' was written after step " + std::to_string(done) + " of " +
      std::to_string(all) + "; to replay " + std::to_string(steps) + " step(s), accepted: a checkpoint of step " +
      std::to_string(all < steps ? 0 : all - steps) + " or before, or --set run.steps=N for a longer run");
}

}  // namespace

Replay replay(const RunSetup& setup, const DataSource& source, const CheckpointReader& checkpoint,
              const ReplaySettings& settings) {
  require_steps(setup, checkpoint, settings.steps);
  std::unique_ptr<World> world = setup.make_world();
  Replay result;
  result.first_rank = world->local_ranks().front();
  const bool has_all_ranks = static_cast<int>(world->local_ranks().size()) == world->rank_count();
  std::optional<ScratchFolder> scratch;
  if (result.first_rank == 0) scratch.emplace(settings.folder);
  const Pass first = run_pass(setup, source, checkpoint, settings.steps, settings.folder / "1", std::move(world));
  result.steps = first.steps;
  result.error = first.error;
  // Other processes do not learn of a difference, and run all times.
  for (int time = 2; time <= settings.times && !(has_all_ranks && result.difference); ++time) {
    const fs::path folder = settings.folder / std::to_string(time);
    const Pass other = run_pass(setup, source, checkpoint, settings.steps, folder);
    if (!scratch) continue;
    if (!result.difference) {
      result.difference = difference_of_passes(first, other);
      if (result.difference) *result.difference += " (times 1 and " + std::to_string(time) + ")";
    }
    fs::remove_all(folder);
  }
  return result;
}

std::optional<std::string> find_difference_from_log(const std::vector<StepRecord>& steps, const fs::path& log) {
  const std::string where = "--log '" + log.string() + "'";
  std::ifstream stream(log);
  if (!stream) throw ConfigurationError(where + ": cannot be opened: " + std::strerror(errno));
  // Of a step that was trained twice, the last record counts.
  std::map<std::uint64_t, nlohmann::json> records;
  for (std::string line; std::getline(stream, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || record.contains("event") || !record.contains("step")) continue;
    if (record["step"].is_number_unsigned()) records[record["step"].get<std::uint64_t>()] = record;
  }
  for (const StepRecord& step : steps) {
    const auto found = records.find(step.step);
    if (found == records.end()) {
      throw ConfigurationError(where + ": has no record of step " + std::to_string(step.step));
    }
    const auto number = [&](const char* key, double replayed) {
      const nlohmann::json value = found->second.value(key, nlohmann::json(""));
      if (value.is_number()) return value.get<double>();
      // The record of a skipped step has null for what is not finite.
      if (value.is_null() && !std::isfinite(replayed)) return replayed;
      throw ConfigurationError(where + ": the record of step " + std::to_string(step.step) + " has no number '" + key +
                               "'");
    };
    if (auto difference = difference_of(step.step, "loss", step.loss, number("loss", step.loss))) return difference;
    const double norm = number("grad_norm", step.gradient_norm);
    if (auto difference = difference_of(step.step, "gradient norm", step.gradient_norm, norm)) return difference;
  }
  return std::nullopt;
}

}  // namespace strata::host
