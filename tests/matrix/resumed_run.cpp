#include "matrix/resumed_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iomanip>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "build_paths.hpp"
#include "chaos/process_tree.hpp"
#include "processes/mpirun.hpp"
#include "strata/error.hpp"
#include "train/temporary_folder.hpp"
#include "verify/verification.hpp"

namespace strata::testing {
namespace {

using Words = std::vector<std::string>;

/// Rounding of sums in another order, in f64.
constexpr double kTolerance = 1e-9;
/// A larger difference up to this multiple of what other micro-batches change on one rank is rounding that the model
/// amplifies.
constexpr double kRoundings = 4;
/// A run takes a second. Ranks that wait in vain give up sooner.
constexpr std::chrono::seconds kLimit{120};
constexpr int kLastLines = 2000;

/// By event, step and name.
using Values = std::map<std::string, double>;

Values values_of(const std::filesystem::path& log) {
  Values values;
  std::istringstream lines(host::test::read_file(log));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step") || !record.contains("loss")) continue;
    const std::string event = record.value("event", "step") + " " + record["step"].dump();
    for (const char* name : {"loss", "grad_norm"}) {
      if (!record.contains(name)) continue;
      values[event + " " + name] = record[name].is_number() ? record[name].get<double>() : std::nan("");
    }
  }
  return values;
}

double relative_difference(double value, double expected) { return std::abs(value - expected) / std::abs(expected); }

/// One resumption in a folder of its own.
class Execution {
 public:
  Execution(const DrawnResumption& drawn, std::string communicator, const std::string& plugin_path)
      : drawn_(drawn),
        communicator_(std::move(communicator)),
        plugin_path_("STRATA_PLUGIN_PATH=" + plugin_path),
        tree_(folder_.path().string()) {}

  /// \return the largest difference. \throws std::runtime_error that says what is wrong.
  double run() {
    train("alone", drawn_.alone, "local", 1, {});
    train("stacks", drawn_.first, communicator_, drawn_.first_ranks, {"--steps", "2"});
    train("stacks", drawn_.second, communicator_, drawn_.second_ranks, {"--resume", "auto"});
    return compare(values_of(log_of("stacks")));
  }

 private:
  [[nodiscard]] std::filesystem::path log_of(const std::string& run) const { return folder_.path() / (run + ".jsonl"); }

  /// Starts the ranks of a run, and waits for their end.
  void train(const std::string& run, const std::string& toml, const std::string& communicator, int ranks,
             const Words& arguments) {
    Words words = start_of(communicator, ranks);
    words.push_back(folder_.file(run + ".toml", toml).string());
    for (const std::string& setting :
         {std::string("run.steps=4"), std::string("run.eval_every=2"), std::string("run.eval_batches=1"),
          "run.output=" + (folder_.path() / run).string(), "communicator.plugin=" + communicator,
          std::string("communicator.timeout=60")}) {
      words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), {"--log-json", log_of(run).string()});
    words.insert(words.end(), arguments.begin(), arguments.end());
    execute(words, std::to_string(ranks) + " ranks of '" + communicator + "'");
  }

  [[nodiscard]] static Words start_of(const std::string& communicator, int ranks) {
    const std::string strata = build_path("bin/strata");
    if (communicator == "local" || ranks == 1) return {strata, "train"};
    if (communicator == "gloo") return {strata, "launch", "--ranks", std::to_string(ranks)};
    Words words = mpirun(ranks);
    words.insert(words.end(), {strata, "train"});
    return words;
  }

  void execute(const Words& words, const std::string& what) {
    using Clock = std::chrono::steady_clock;
    const std::filesystem::path output = folder_.path() / "output";
    chaos::Command command(words, {{tree_.mark(), plugin_path_}, output});
    const Clock::time_point deadline = Clock::now() + kLimit;
    while (!command.poll() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const bool has_ended = command.poll().has_value();
    const std::string running = has_ended ? "" : tree_.list();
    if (!has_ended) tree_.send_all(SIGKILL);
    if (has_ended && command.poll()->code == 0) return;
    std::string text = what + (has_ended ? ": " + command.poll()->text() : ": HANGS\n" + running) + "\n ";
    for (const std::string& word : words) text += " '" + word + "'";
    const std::string messages = host::test::read_file(output);
    const std::size_t shown = std::min<std::size_t>(messages.size(), kLastLines);
    throw std::runtime_error(text + "\n" + messages.substr(messages.size() - shown));
  }

  double compare(const Values& found) {
    const Values expected = values_of(log_of("alone"));
    // Four steps, and two evaluations.
    constexpr std::size_t kValues = 4 * 2 + 2;
    if (expected.size() != kValues) {
      throw std::runtime_error("the log of one rank has " + std::to_string(expected.size()) + " values");
    }
    Values rounding;
    double largest = 0;
    for (const auto& [name, value] : expected) {
      const auto same = found.find(name);
      if (same == found.end()) throw std::runtime_error("the log of the stacks has no " + name);
      const double difference = relative_difference(same->second, value);
      largest = std::max(largest, difference);
      if (difference <= kTolerance) continue;
      if (rounding.empty()) rounding = rounding_of(expected);
      if (difference <= kRoundings * rounding[name]) continue;
      std::ostringstream text;
      text << std::setprecision(std::numeric_limits<double>::max_digits10) << name << " differs from one rank's by "
           << difference << ": " << same->second << " instead of " << value << ". Other micro-batches change it by "
           << rounding[name] << " on one rank";
      throw std::runtime_error(text.str());
    }
    return largest;
  }

  /// The largest relative differences from `expected` of one rank that adds the same gradients up in another order: in
  /// micro-batches of another size.
  Values rounding_of(const Values& expected) {
    Values rounding;
    for (int micro = 1; micro < drawn_.global_batch; ++micro) {
      if (drawn_.global_batch % micro != 0) continue;
      const std::string run = "micro-" + std::to_string(micro);
      train(run, drawn_.alone, "local", 1, {"--set", "batch.micro=" + std::to_string(micro)});
      for (const auto& [name, value] : values_of(log_of(run))) {
        rounding[name] = std::max(rounding[name], relative_difference(value, expected.at(name)));
      }
    }
    return rounding;
  }

  const DrawnResumption& drawn_;
  std::string communicator_;
  std::string plugin_path_;
  host::test::TemporaryFolder folder_;
  chaos::ProcessTree tree_;
};

std::string joined_path(const std::vector<std::filesystem::path>& folders) {
  std::string text;
  for (const std::filesystem::path& each : folders) text += (text.empty() ? "" : ":") + each.string();
  return text;
}

}  // namespace

ResumedRuns::ResumedRuns(const std::vector<std::filesystem::path>& plugin_folders, std::string communicator)
    : plugin_folders_(plugin_folders), communicator_(std::move(communicator)), plugins_(plugin_folders) {}

bool ResumedRuns::accepts(const std::string& toml) {
  try {
    const host::RunSetup setup = host::prepare(host::parse_configuration(toml, "drawn.toml"), plugins_);
    static_cast<void>(host::VerifiedPrograms(setup, DType::f32));
    return true;
  } catch (const ConfigurationError&) {
    return false;
  }
}

ResumedRun ResumedRuns::run(std::uint64_t number) {
  const DrawnResumption drawn = drawn_resumption(number, [&](const std::string& toml) { return accepts(toml); });
  ResumedRun result;
  try {
    result.difference = Execution(drawn, communicator_, joined_path(plugin_folders_)).run();
  } catch (const std::exception& error) {
    result.failure = std::string(error.what()) + "\n# first stack\n" + drawn.first + "\n# second stack\n" +
                     drawn.second + "\n# one rank\n" + drawn.alone;
  }
  return result;
}

int run_resumptions(const std::string& communicator, std::uint64_t from, std::uint64_t count, int jobs,
                    const std::filesystem::path& plugin_folder, std::ostream& out) {
  std::mutex mutex;
  std::atomic<std::uint64_t> next = from;
  int failures = 0;
  double worst = 0;
  const auto work = [&] {
    ResumedRuns runs(drawn_plugin_folders(plugin_folder), communicator);
    for (std::uint64_t number = next++; number < from + count; number = next++) {
      const ResumedRun result = runs.run(number);
      const std::lock_guard lock(mutex);
      worst = std::max(worst, result.difference);
      if (result.failure.empty()) continue;
      ++failures;
      out << "resumption " << number << " on '" << communicator << "' FAILS: " << result.failure << std::endl;
    }
  };
  std::vector<std::thread> threads;
  for (int job = 0; job < jobs; ++job) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  out << count << " resumptions on '" << communicator << "': " << failures << (failures == 1 ? " fails" : " fail")
      << "; largest relative difference of the others: " << worst << std::endl;
  return failures;
}

}  // namespace strata::testing
