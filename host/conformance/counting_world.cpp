#include "conformance/counting_world.hpp"

#include <algorithm>

namespace strata::host {
namespace {

/// The axes along which ranks differ, in mesh order.
std::vector<Axis> differing_axes(const Mesh& mesh, const std::vector<int>& ranks) {
  const Coordinates first = mesh.coordinates(ranks.front());
  std::vector<Axis> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    const bool differ = std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
      return mesh.coordinates(rank).at(axis.name) != first.at(axis.name);
    });
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
    groups_[group] = ranks;
    return group;
  }

  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override {
    const std::vector<int>& ranks = groups_.at(call.group);
    const auto count = static_cast<double>(ranks.size());
    double bytes = static_cast<double>(call.elements) * static_cast<double>(size_of(call.dtype));
    if (call.kind == CollectiveKind::all_gather) bytes *= count;
    // A ring passes on all pieces but one. An all_reduce passes them twice: to sum them and to spread the sums.
    bytes *= (count - 1) / count;
    if (call.kind == CollectiveKind::all_reduce) bytes *= 2;
    add(std::string(to_string(call.kind)), ranks, bytes);
    return communicator_->start(call);
  }

  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override {
    add("send", {rank(), call.peer}, static_cast<double>(call.bytes));
    return communicator_->send(call);
  }

  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override {
    return communicator_->receive(call);
  }

  void abort(const std::string& reason) noexcept override { communicator_->abort(reason); }
  void check() override { communicator_->check(); }
  void make_ready(const CommunicationPlan& plan) override { communicator_->make_ready(plan); }

 private:
  void add(const std::string& kind, const std::vector<int>& ranks, double bytes) {
    Traffic& traffic = traffic_[{kind, differing_axes(mesh_, ranks)}];
    ++traffic.calls;
    traffic.bytes_sent += bytes;
  }

  std::unique_ptr<Communicator> communicator_;
  const Mesh& mesh_;
  TrafficByAxes& traffic_;
  std::map<int, std::vector<int>> groups_;
};

}  // namespace

CountingWorld::CountingWorld(std::unique_ptr<World> world, const Mesh& mesh)
    : world_(std::move(world)), mesh_(mesh), traffic_(static_cast<std::size_t>(world_->rank_count())) {}

std::unique_ptr<Communicator> CountingWorld::connect(int rank, Device& device) {
  return std::make_unique<CountingCommunicator>(world_->connect(rank, device), mesh_,
                                                traffic_.at(static_cast<std::size_t>(rank)));
}

}  // namespace strata::host
