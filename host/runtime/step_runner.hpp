#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor.hpp"
#include "runtime/launcher.hpp"
#include "runtime/prepared_program.hpp"

namespace strata::host {

/// Runs the steps of one rank. On a device that captures work, the first step is launched instruction by instruction;
/// in the second, what lies between communications, transfers and waits for them is captured, and from then on
/// launched as a graph. Where the communicator can be captured as well, that is the whole step.
class StepRunner {
 public:
  /// All references outlive the runner. `communicates_in_graphs`: whether graphs may hold communication.
  StepRunner(const Program& program, int rank, const PreparedProgram& prepared, Device& device,
             Communicator& communicator, Launcher& launcher, bool communicates_in_graphs);

  /// Returns when the step is over. \throws RuntimeError with rank, step and instruction.
  void run(const StepContext& step, InputSource& inputs);

  /// Empty until it is known.
  [[nodiscard]] std::optional<GraphUse> graph_use() const;

 private:
  struct Scheduled {
    TaskInstance at;
    std::size_t index = 0;
    const PreparedInstruction* prepared = nullptr;
  };
  /// Neighbours in the schedule.
  struct Segment {
    std::size_t begin = 0;
    std::size_t end = 0;
    /// Of what a graph can hold, and long enough for one.
    bool is_capturable = false;
    /// What the graph holds of communication; outlives it.
    std::unique_ptr<CapturedCommunication> communication = nullptr;
    std::unique_ptr<StepGraph> graph = nullptr;
  };

  void cut();
  [[nodiscard]] bool is_capturable(const Instruction& instruction) const;
  [[nodiscard]] bool communicates_in_graphs() const { return !communication_outside_; }
  [[nodiscard]] std::span<const Scheduled> instructions(const Segment& segment) const;
  [[nodiscard]] std::string place(const Scheduled& scheduled) const;

  /// Of the step that runs.
  [[nodiscard]] StepContext context(const Scheduled& scheduled) const;

  void load(const Scheduled& scheduled);
  void launch(const Scheduled& scheduled);
  void launch_each(const Segment& segment);
  void launch_graph(Segment& segment);
  /// False where it failed: then there will be no graphs. \throws RuntimeError where it failed and the graph would hold
  /// communication, of which other ranks have captured their ends.
  bool capture(Segment& segment);
  void launch_in_capture(const Segment& segment);

  const Program& program_;
  int rank_;
  Device& device_;
  Communicator& communicator_;
  Launcher& launcher_;
  std::vector<Scheduled> schedule_;
  std::vector<Segment> segments_;
  /// Why there are no graphs.
  std::optional<std::string> refusal_;
  /// Why graphs hold no communication.
  std::optional<std::string> communication_outside_;
  int steps_ = 0;
  // Of the step that runs.
  StepContext step_;
  InputSource* inputs_ = nullptr;
};

}  // namespace strata::host
