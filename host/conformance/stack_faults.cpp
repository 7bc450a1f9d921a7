#include "conformance/stack_faults.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "reports/program_summary.hpp"

namespace strata::host {
namespace {

/// Adds one line per fault. Each line has a new stream, so that no formatting state carries over.
template <class... Parts>
void add(std::vector<std::string>& lines, const Parts&... parts) {
  std::ostringstream line;
  (line << ... << parts);
  lines.push_back(line.str());
}

void compare_training(const RunEvidence& evidence, std::vector<std::string>& faults) {
  const StackDifference& difference = evidence.difference;
  const auto require = [&](double found, double tolerance, const std::string& what) {
    // Not "found > tolerance", which would be false for NaN.
    if (!(found <= tolerance)) add(faults, what, " differs from one rank's by ", found);
  };
  require(difference.loss, evidence.tolerance.loss, "the loss");
  require(difference.gradient_norm, evidence.tolerance.gradient_norm, "the gradient norm");
  // The last evaluation follows an update that no loss of the training has seen.
  require(difference.evaluation, 2 * evidence.tolerance.loss, "the loss of an evaluation");
  require(difference.parameter, evidence.tolerance.parameter, "parameter " + difference.worst_parameter);
  if (evidence.stack.replica_difference != 0) add(faults, "replicas differ by ", evidence.stack.replica_difference);
}

void compare_memory(const RunEvidence& evidence, std::vector<std::string>& faults) {
  for (std::size_t rank = 0; rank < evidence.stack.planned_peak_bytes.size(); ++rank) {
    const std::int64_t planned = evidence.stack.planned_peak_bytes[rank];
    const std::int64_t used = evidence.stack.arena_peak_bytes[rank];
    if (planned != used) add(faults, "rank ", rank, " used ", used, " bytes of ", planned, " planned");
    if (evidence.stack.planned_offload[rank] != evidence.stack.offload_peak[rank]) {
      add(faults, "rank ", rank, " used other memory outside of its device than was planned");
    }
  }
}

/// Adds the traffic of a program's ranks in `steps` steps, as `strata explain` reports it.
void add_explained(const Program& program, std::size_t steps, TrafficByAxes& explained) {
  for (std::size_t step = 0; step < steps; ++step) {
    for (const auto& each : summarize_communication(program, step)) {
      std::vector<Axis> axes;
      std::istringstream stream(each.axes);
      for (Axis axis; std::getline(stream, axis, '+');) {
        if (program.mesh.size(axis) > 1) axes.push_back(axis);
      }
      std::sort(axes.begin(), axes.end(),
                [&](const Axis& a, const Axis& b) { return program.mesh.order(a) < program.mesh.order(b); });
      Traffic& traffic = explained[{each.kind, axes}];
      traffic.calls += each.calls;
      traffic.bytes_sent += each.bytes;
    }
  }
}

bool equal(const Traffic& a, const Traffic& b) {
  // With three ranks, each sends thirds of bytes, whose sums round by much less than a byte.
  return a.calls == b.calls && std::abs(a.bytes_sent - b.bytes_sent) < 1e-3;
}

void compare_traffic(const RunEvidence& evidence, std::vector<std::string>& faults) {
  for (std::size_t rank = 0; rank < evidence.traffic.size(); ++rank) {
    TrafficByAxes explained;
    add_explained(evidence.compiled.program(static_cast<int>(rank)), evidence.stack.losses.size(), explained);
    if (evidence.evaluation != nullptr) {
      const Program& evaluation = evidence.evaluation->program(static_cast<int>(rank));
      add_explained(evaluation, evidence.stack.evaluations.size(), explained);
    }
    TrafficByAxes counted = evidence.traffic[rank];
    for (const auto& [key, traffic] : explained) counted.try_emplace(key);
    for (const auto& [key, traffic] : counted) {
      const Traffic& expected = explained[key];
      if (equal(traffic, expected)) continue;
      add(faults, "rank ", rank, " sent ", traffic.bytes_sent, " bytes in ", traffic.calls, " calls of ", key.first,
          " over ", join(key.second, "+"), "; explained were ", expected.bytes_sent, " in ", expected.calls);
    }
  }
}

}  // namespace

std::vector<std::string> StackFaults::all() const {
  std::vector<std::string> lines;
  for (const auto* part : {&communication, &training, &memory, &traffic}) {
    lines.insert(lines.end(), part->begin(), part->end());
  }
  return lines;
}

void find_faults(const RunEvidence& evidence, StackFaults& faults) {
  compare_training(evidence, faults.training);
  compare_memory(evidence, faults.memory);
  compare_traffic(evidence, faults.traffic);
}

}  // namespace strata::host
