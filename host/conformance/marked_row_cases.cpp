#include <string>

#include "conformance/check.hpp"
#include "conformance/communicator_bench.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kMarks = 3;

/// One rank's part of a collective with marked rows (RowMarks).
class MarkedRowsCase {
 public:
  MarkedRowsCase(Communicator& communicator, Device& device, MarkedRowsSize size)
      : communicator_(communicator),
        device_(device),
        size_(size),
        rank_(communicator.rank()),
        ranks_(communicator.rank_count()),
        group_(communicator.create_group(all_ranks(ranks_))),
        sent_(device, DType::f32, ranks_ * size.rows * kMarks),
        received_(device, DType::f32, ranks_ * size.rows * kMarks) {
    std::vector<double> sent;
    std::vector<double> received;
    for (int peer = 0; peer < ranks_; ++peer) {
      for (std::int64_t row = 0; row < size.rows; ++row) {
        for (std::int64_t mark = 0; mark < kMarks; ++mark) {
          const bool is_here = mark == row % kMarks;
          sent.push_back(is_here && is_marked(rank_, peer, row) ? -0.5 : 0);
          received.push_back(is_here && is_marked(peer, rank_, row) ? -0.5 : 0);
        }
      }
    }
    sent_.set(sent);
    received_.set(received);
  }

  void gather() {
    const std::vector<double> found = run(CollectiveKind::all_gather, rows_of(rank_, -1), piece() * ranks_);
    for (int peer = 0; peer < ranks_; ++peer) {
      const std::vector<double> wanted = rows_of(peer, -1);
      for (std::int64_t i = 0; i < piece(); ++i) {
        if (!is_marked(peer, rank_, i / size_.elements)) continue;
        require(found[static_cast<std::size_t>(piece() * peer + i)] == wanted[static_cast<std::size_t>(i)],
                "all_gather");
      }
    }
  }

  void reduce_scatter() {
    std::vector<double> input;
    for (int peer = 0; peer < ranks_; ++peer) {
      const std::vector<double> rows = rows_of(rank_, peer);
      input.insert(input.end(), rows.begin(), rows.end());
    }
    std::vector<double> wanted(static_cast<std::size_t>(piece()));
    for (int peer = 0; peer < ranks_; ++peer) {
      const std::vector<double> rows = rows_of(peer, rank_);
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += rows[i];
    }
    require(run(CollectiveKind::reduce_scatter, input, piece()) == wanted, "reduce_scatter");
  }

 private:
  [[nodiscard]] std::int64_t piece() const { return size_.rows * size_.elements; }

  /// A third of the rows travels, and none from the first rank to the last.
  [[nodiscard]] bool is_marked(int from, int to, std::int64_t row) const {
    return (from != 0 || to + 1 != ranks_ || ranks_ == 1) && (row * 5 + from * 2 + to) % 3 == 0;
  }

  /// The rows of rank `from` for rank `to`, which are 0 without marks; -1: for all ranks alike.
  [[nodiscard]] std::vector<double> rows_of(int from, int to) const {
    std::vector<double> values;
    for (std::int64_t i = 0; i < piece(); ++i) {
      const bool is_zero = to >= 0 && !is_marked(from, to, i / size_.elements);
      values.push_back(is_zero ? 0 : static_cast<double>((i * 7 + from * 3 + to) % 11 - 4));
    }
    return values;
  }

  std::vector<double> run(CollectiveKind kind, const std::vector<double>& values, std::int64_t results) {
    const std::string name = "marked rows";
    DeviceNumbers input(device_, DType::f32, static_cast<std::int64_t>(values.size()));
    DeviceNumbers output(device_, DType::f32, results);
    input.set(values);
    CollectiveCall call{.kind = kind, .dtype = DType::f32, .group = group_};
    call.input = input.data();
    call.output = output.data();
    call.elements = static_cast<std::int64_t>(values.size());
    call.id = ++id_;
    call.name = &name;
    call.marks = {
        .sent = sent_.data(), .received = received_.data(), .dtype = DType::f32, .rows = size_.rows, .marks = kMarks};
    communicator_.start(call)->wait();
    std::vector<double> found = output.get();
    // No rank may free its input while a peer still reads it.
    device_.synchronize(StreamKind::compute);
    return found;
  }

  void require(bool is_right, const std::string& what) const {
    if (is_right) return;
    throw CheckFailed(what + " of " + std::to_string(size_.rows) + " rows of " + std::to_string(size_.elements) +
                      " with marks, among " + std::to_string(ranks_) + ": a wrong row");
  }

  Communicator& communicator_;
  Device& device_;
  MarkedRowsSize size_;
  int rank_;
  int ranks_;
  int group_;
  std::uint64_t id_ = 0;
  DeviceNumbers sent_;
  DeviceNumbers received_;
};

}  // namespace

void try_marked_rows(const CommunicatorBench& bench, int ranks, const std::vector<MarkedRowsSize>& sizes) {
  const auto errors = run_ranks(bench, ranks, [&](Communicator& communicator, Device& device) {
    for (const MarkedRowsSize& size : sizes) {
      MarkedRowsCase test(communicator, device, size);
      test.gather();
      test.reduce_scatter();
    }
  });
  require_no_error(errors, "marked rows");
}

}  // namespace strata::host
