#include <algorithm>
#include <cmath>
#include <sstream>

#include "conformance/stack_proof.hpp"
#include "reports/program_summary.hpp"

namespace strata::host {
namespace {

/// Differences up to this multiple of what one disturbance of all parameters causes are rounding, of which a step has
/// many.
constexpr double kRoundings = 4;

/// Adds one line per fault. Each line has a new stream, so that no formatting state carries over.
template <class... Parts>
void add(std::vector<std::string>& lines, const Parts&... parts) {
  std::ostringstream line;
  (line << ... << parts);
  lines.push_back(line.str());
}

/// A value that is compared with one rank's.
struct Compared {
  std::string what;
  double StackDifference::*difference;
  double tolerance;
};

std::vector<Compared> compared_values(const StackDifference& difference, const Tolerance& tolerance) {
  return {{"the loss", &StackDifference::loss, tolerance.loss},
          {"the gradient norm", &StackDifference::gradient_norm, tolerance.gradient_norm},
          // The last evaluation follows an update that no loss of the training has seen.
          {"the loss of an evaluation", &StackDifference::evaluation, 2 * tolerance.loss},
          {"parameter " + difference.worst_parameter, &StackDifference::parameter, tolerance.parameter}};
}

/// Not "difference > tolerance", which would be false for NaN.
bool is_above(double difference, double tolerance) { return !(difference <= tolerance); }

void compare_training(const RunEvidence& evidence, StackFaults& faults) {
  for (const Compared& each : compared_values(evidence.difference, evidence.tolerance)) {
    const double found = evidence.difference.*each.difference;
    if (!is_above(found, each.tolerance)) continue;
    if (evidence.sensitivity == nullptr) {
      add(faults.training, each.what, " differs from one rank's by ", found);
      continue;
    }
    const double sensitivity = evidence.sensitivity->*each.difference;
    const bool is_rounding = std::isfinite(found) && !is_above(found, kRoundings * sensitivity);
    add(is_rounding ? faults.amplified : faults.training, is_rounding ? "amplified rounding: " : "", each.what,
        " differs from one rank's by ", found, is_rounding ? ", and" : ", but",
        " disturbing one rank's initial parameters by one unit in the last place changes it by ", sensitivity,
        is_rounding ? " as well" : " only");
  }
  if (evidence.stack.replica_difference != 0) {
    add(faults.training, "replicas differ by ", evidence.stack.replica_difference);
  }
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
      std::ranges::sort(axes,
                        [&](const Axis& a, const Axis& b) { return program.mesh.order(a) < program.mesh.order(b); });
      Traffic& traffic = explained[{each.kind, axes}];
      traffic.calls += std::llround(each.calls);
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
    const std::size_t alone = evidence.evaluation_alone == nullptr ? 0 : 1;
    if (alone > 0) add_explained(evidence.evaluation_alone->program(static_cast<int>(rank)), alone, explained);
    if (evidence.evaluation != nullptr) {
      const Program& evaluation = evidence.evaluation->program(static_cast<int>(rank));
      add_explained(evaluation, evidence.stack.evaluations.size() - alone, explained);
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

/// The axes along which ranks differ, in mesh order.
std::vector<Axis> differing_axes(const Mesh& mesh, const std::vector<int>& ranks) {
  const Coordinates first = mesh.coordinates(ranks.front());
  std::vector<Axis> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    const bool differ = std::ranges::any_of(
        ranks, [&](int rank) { return mesh.coordinates(rank).at(axis.name) != first.at(axis.name); });
    if (differ) axes.push_back(axis.name);
  }
  return axes;
}

class CountingCommunicator final : public Communicator {
 public:
  CountingCommunicator(std::unique_ptr<Communicator> communicator, const Mesh& mesh, TrafficByAxes& traffic)
      : communicator_(std::move(communicator)), mesh_(mesh), traffic_(traffic) {}

  [[nodiscard]] int rank() const override { return communicator_->rank(); }
  [[nodiscard]] int rank_count() const override { return communicator_->rank_count(); }

  [[nodiscard]] int create_group(const std::vector<int>& ranks) override {
    const int group = communicator_->create_group(ranks);
    groups_[group] = {static_cast<double>(ranks.size()), differing_axes(mesh_, ranks)};
    return group;
  }

  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override {
    const auto& [count, axes] = groups_.at(call.group);
    double bytes = static_cast<double>(call.elements) * static_cast<double>(size_of(call.dtype));
    if (call.kind == CollectiveKind::all_gather) bytes *= count;
    // A ring passes on all pieces but one. An all_reduce passes them twice: to sum them and to spread the sums.
    bytes *= (count - 1) / count;
    if (call.kind == CollectiveKind::all_reduce) bytes *= 2;
    add(std::string(to_string(call.kind)), axes, bytes);
    return communicator_->start(call);
  }

  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override {
    add("send", differing_axes(mesh_, {rank(), call.peer}), static_cast<double>(call.bytes));
    return communicator_->send(call);
  }

  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override {
    return communicator_->receive(call);
  }

  void abort(const std::string& reason) noexcept override { communicator_->abort(reason); }
  void check() override { communicator_->check(); }
  void make_ready(const CommunicationPlan& plan) override { communicator_->make_ready(plan); }

 private:
  struct Group {
    double rank_count = 0;
    std::vector<Axis> axes;
  };

  void add(const std::string& kind, const std::vector<Axis>& axes, double bytes) {
    Traffic& traffic = traffic_[{kind, axes}];
    ++traffic.calls;
    traffic.bytes_sent += bytes;
  }

  std::unique_ptr<Communicator> communicator_;
  const Mesh& mesh_;
  TrafficByAxes& traffic_;
  std::map<int, Group> groups_;
};

}  // namespace

CountingWorld::CountingWorld(std::unique_ptr<World> world, const Mesh& mesh)
    : world_(std::move(world)), mesh_(mesh), traffic_(static_cast<std::size_t>(world_->rank_count())) {}

std::unique_ptr<Communicator> CountingWorld::connect(int rank, Device& device) {
  return std::make_unique<CountingCommunicator>(world_->connect(rank, device), mesh_,
                                                traffic_.at(static_cast<std::size_t>(rank)));
}

std::vector<std::string> StackFaults::all() const {
  std::vector<std::string> lines;
  for (const auto* part : {&communication, &training, &memory, &traffic}) {
    lines.insert(lines.end(), part->begin(), part->end());
  }
  return lines;
}

bool exceeds(const StackDifference& difference, const Tolerance& tolerance) {
  const std::vector<Compared> values = compared_values(difference, tolerance);
  return std::ranges::any_of(
      values, [&](const Compared& each) { return is_above(difference.*each.difference, each.tolerance); });
}

void find_faults(const RunEvidence& evidence, StackFaults& faults) {
  compare_training(evidence, faults);
  compare_memory(evidence, faults.memory);
  compare_traffic(evidence, faults.traffic);
}

}  // namespace strata::host
