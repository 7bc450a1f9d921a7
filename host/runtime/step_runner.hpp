#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor.hpp"
#include "runtime/flight_recorder.hpp"
#include "runtime/launcher.hpp"
#include "runtime/prepared_program.hpp"

namespace strata::host {

/// Runs the steps of one rank. On a device with graphs, the first step launches single instructions. The second step
/// captures each run of instructions between communications, transfers and waits for them. Later steps launch these
/// graphs. If the communicator can be captured too, one graph contains the whole step. Each variant of the step
/// (step_variants()) has a first and a second step and graphs of its own.
class StepRunner {
 public:
  /// All references outlive the runner. `communicates_in_graphs`: allows graphs to contain communication.
  StepRunner(const RankContext& context, const PreparedProgram& prepared, Launcher& launcher,
             bool communicates_in_graphs);

  /// Notes what the runner does. The recorder outlives it.
  void record_in(FlightRecorder& recorder) { recorder_ = &recorder; }

  /// Runs a step and returns when it has ended. \throws RuntimeError with rank, step and instruction.
  void run(const StepContext& step, InputSource& inputs);

  /// The graphs of the last step. Empty until the second step of its variant has run.
  [[nodiscard]] std::optional<GraphUse> graph_use() const;

 private:
  struct Scheduled {
    TaskInstance at;
    std::size_t index = 0;
    const PreparedInstruction* prepared = nullptr;
  };
  /// Consecutive instructions of a variant's schedule.
  struct Segment {
    std::size_t begin = 0;
    std::size_t end = 0;
    /// True if a graph can contain all instructions and they are enough to be worth a graph.
    bool is_capturable = false;
    /// The communication in the graph. Outlives the graph.
    std::unique_ptr<CapturedCommunication> communication = nullptr;
    std::unique_ptr<StepGraph> graph = nullptr;
  };

  struct Variant {
    /// All instructions of a step, in segments. Empty if there are no graphs.
    std::vector<Scheduled> schedule;
    std::vector<Segment> segments;
    int steps = 0;
  };

  /// Calls `visit(scheduled)` for all instructions of a step, in order.
  template <class Visit>
  void for_each_scheduled(std::uint64_t step, const Visit& visit) const;
  /// Plans the graphs of all variants. Sets refusal_ if there are none.
  void plan_graphs();

  void run_segments();
  /// Divides the schedule in segments. \return true if one of them is capturable.
  bool cut(Variant& variant) const;
  [[nodiscard]] bool is_capturable(const Instruction& instruction) const;
  [[nodiscard]] bool communicates_in_graphs() const { return !communication_outside_; }
  [[nodiscard]] std::span<const Scheduled> instructions(const Segment& segment) const;
  /// "rank 1, step 37".
  [[nodiscard]] std::string step_text() const;
  [[nodiscard]] std::string place(const Scheduled& scheduled) const;
  /// Records that the rank begins an instruction, or a graph of `count` ones.
  void note(const Scheduled& scheduled, std::size_t count = 1) const;

  /// The current step for an instruction.
  [[nodiscard]] StepContext step_of(const Scheduled& scheduled) const;

  void load(const Scheduled& scheduled);
  void launch(const Scheduled& scheduled);
  /// Launches an instruction by itself.
  void launch_one(const Scheduled& scheduled);
  void launch_each(const Segment& segment);
  void launch_graph(Segment& segment);
  /// Captures a segment. \return false if that failed; then there will be no further graphs. \throws RuntimeError if it
  /// failed and the graph would contain communication, because other ranks have captured their parts.
  bool capture(Segment& segment);
  void launch_in_capture(const Segment& segment);

  const RankContext& context_;
  const PreparedProgram& prepared_;
  Launcher& launcher_;
  FlightRecorder* recorder_ = nullptr;
  std::vector<StepCondition> conditions_;
  /// By the conditions_ that hold.
  std::map<std::vector<bool>, Variant> variants_;
  /// Why there are no graphs.
  std::optional<std::string> refusal_;
  /// Why graphs contain no communication.
  std::optional<std::string> communication_outside_;
  // State of the current step.
  Variant* variant_ = nullptr;
  StepContext step_;
  InputSource* inputs_ = nullptr;
};

}  // namespace strata::host
