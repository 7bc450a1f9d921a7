#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "conformance/check.hpp"
#include "conformance/communicator_bench.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// One communication of a random program that all ranks know.
struct PlayedStep {
  bool is_collective = true;
  /// The group, or sender and receiver.
  std::vector<int> ranks;
  std::int64_t elements = 0;
};

constexpr int kPlayers = 4;

std::vector<PlayedStep> random_program(std::uint32_t seed, int length) {
  std::mt19937 random(seed);
  std::vector<PlayedStep> program;
  for (int i = 0; i < length; ++i) {
    std::vector<int> ranks = all_ranks(kPlayers);
    std::shuffle(ranks.begin(), ranks.end(), random);
    PlayedStep step{random() % 3 != 0, {}, static_cast<std::int64_t>(random() % 300)};
    ranks.resize(step.is_collective ? 1 + random() % kPlayers : 2);
    step.ranks = ranks;
    program.push_back(step);
  }
  return program;
}

double played_value(int rank, std::size_t step) { return rank * 1000.0 + static_cast<double>(step); }

/// Runs one rank's part with several communications in flight. Awaits them in random order and with random pauses.
class Player {
 public:
  Player(Communicator& communicator, Device& device, const std::vector<PlayedStep>& program, std::uint32_t seed)
      : communicator_(communicator), device_(device), program_(program), random_(seed), rank_(communicator.rank()) {}

  /// Peers may read the data until the requests have ended.
  ~Player() {
    for (InFlight& entry : in_flight_) {
      try {
        entry.request->wait();
      } catch (...) {
        // The error that ended the play is more specific.
      }
    }
    device_.synchronize(StreamKind::compute);
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  void play() {
    for (std::size_t i = 0; i < program_.size(); ++i) {
      start(i);
      if (random_() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
      while (in_flight_.size() > random_() % 6) finish(random_() % in_flight_.size());
    }
    while (!in_flight_.empty()) finish(in_flight_.size() - 1);
  }

 private:
  struct InFlight {
    std::unique_ptr<Request> request;
    std::unique_ptr<DeviceNumbers> data;
    double expected = 0;
    std::size_t step = 0;
  };

  void start(std::size_t index) {
    const PlayedStep& step = program_[index];
    if (std::find(step.ranks.begin(), step.ranks.end(), rank_) == step.ranks.end()) return;
    InFlight entry;
    entry.step = index;
    entry.data = std::make_unique<DeviceNumbers>(device_, DType::f64, step.elements);
    entry.data->set(std::vector<double>(static_cast<std::size_t>(step.elements), played_value(rank_, index)));
    if (step.is_collective) {
      for (const int rank : step.ranks) entry.expected += played_value(rank, index);
      CollectiveCall call{.dtype = DType::f64, .group = communicator_.create_group(step.ranks)};
      call.input = call.output = entry.data->data();
      call.elements = step.elements;
      call.id = index;
      entry.request = communicator_.start(call);
    } else {
      const bool sends = step.ranks[0] == rank_;
      entry.expected = played_value(step.ranks[0], index);
      const MessageCall call{
          .peer = step.ranks[sends ? 1 : 0], .data = entry.data->data(), .bytes = entry.data->bytes(), .id = index};
      entry.request = sends ? communicator_.send(call) : communicator_.receive(call);
    }
    in_flight_.push_back(std::move(entry));
  }

  void finish(std::size_t position) {
    InFlight entry = std::move(in_flight_[position]);
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(position));
    entry.request->wait();
    device_.synchronize(StreamKind::compute);
    communicator_.check();
    for (const double value : entry.data->get()) {
      if (value == entry.expected) continue;
      throw CheckFailed("communication " + std::to_string(entry.step) + " of a random program gives " +
                        std::to_string(value) + " in place of " + std::to_string(entry.expected));
    }
  }

  Communicator& communicator_;
  Device& device_;
  const std::vector<PlayedStep>& program_;
  std::mt19937 random_;
  int rank_;
  std::vector<InFlight> in_flight_;
};

}  // namespace

void try_interleaving(const CommunicatorBench& bench, std::uint32_t seed) {
  // Two rounds with the same ids, as two steps of a run have.
  const std::vector<PlayedStep> program = random_program(seed, 150);
  const auto errors = run_ranks(bench, kPlayers, [&](Communicator& communicator, Device& device) {
    for (std::uint32_t round = 0; round < 2; ++round) {
      const auto rank = static_cast<std::uint32_t>(communicator.rank());
      Player(communicator, device, program, 1000 * seed + 10 * round + rank).play();
    }
  });
  require_no_error(errors, "seed " + std::to_string(seed));
}

void try_abort(const CommunicatorBench& bench, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const std::vector<PlayedStep> program = random_program(static_cast<std::uint32_t>(round), 200);
    const auto errors = run_ranks(bench, kPlayers, [&](Communicator& communicator, Device& device) {
      if (communicator.rank() == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
        communicator.abort("the reason of the abort");
        throw RuntimeError("the root cause");
      }
      Player(communicator, device, program, static_cast<std::uint32_t>(round)).play();
    });
    for (std::size_t rank = 1; rank < errors.size(); ++rank) {
      const std::string& found = errors[rank];
      const bool is_right =
          found.starts_with("aborted: ") && found.find("the reason of the abort") != std::string::npos;
      if (is_right) continue;
      throw CheckFailed("rank 0 aborts, and rank " + std::to_string(rank) + " " +
                        (found.empty() ? std::string("ends without an error") : "throws '" + found + "'") +
                        "; accepted: an AbortedError with the reason");
    }
  }
}

}  // namespace strata::host
