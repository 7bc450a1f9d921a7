#include <algorithm>
#include <functional>
#include <utility>

#include "conformance/check.hpp"
#include "conformance/communicator_bench.hpp"

namespace strata::host {
namespace {

/// One collective over all ranks.
struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Reduction reduction = Reduction::sum;
  DType dtype = DType::f32;
  /// Elements of the input on each rank.
  std::int64_t elements = 0;
  bool in_place = false;
  int ranks = 1;

  [[nodiscard]] std::string describe() const {
    return std::string(to_string(kind)) + " " + std::string(to_string(reduction)) + " of " + std::to_string(elements) +
           " " + std::string(to_string(dtype)) + " among " + std::to_string(ranks) + (in_place ? ", in place" : "");
  }
};

/// The value of a rank at an index: a small integer, whose sums are exact in any order and type.
double contribution(int rank, std::int64_t index) { return static_cast<double>((index * 7 + rank * 3) % 11 - 4); }

double reduced_at(const CollectiveCase& test, std::int64_t index) {
  double result = contribution(0, index);
  for (int rank = 1; rank < test.ranks; ++rank) {
    const double value = contribution(rank, index);
    result = test.reduction == Reduction::sum ? result + value : std::max(result, value);
  }
  return result;
}

/// The output of a rank.
std::vector<double> expected(const CollectiveCase& test, int rank, int root) {
  std::vector<double> values;
  const std::int64_t piece = test.elements / test.ranks;
  switch (test.kind) {
    case CollectiveKind::all_reduce:
      for (std::int64_t i = 0; i < test.elements; ++i) values.push_back(reduced_at(test, i));
      break;
    case CollectiveKind::reduce_scatter:
      for (std::int64_t i = 0; i < piece; ++i) values.push_back(reduced_at(test, piece * rank + i));
      break;
    case CollectiveKind::all_gather:
      for (int peer = 0; peer < test.ranks; ++peer) {
        for (std::int64_t i = 0; i < test.elements; ++i) values.push_back(contribution(peer, i));
      }
      break;
    case CollectiveKind::all_to_all:
      for (int peer = 0; peer < test.ranks; ++peer) {
        for (std::int64_t i = 0; i < piece; ++i) values.push_back(contribution(peer, piece * rank + i));
      }
      break;
    case CollectiveKind::broadcast:
      for (std::int64_t i = 0; i < test.elements; ++i) values.push_back(contribution(root, i));
      break;
  }
  return values;
}

std::vector<CollectiveCase> all_cases(int ranks) {
  std::vector<CollectiveCase> cases;
  for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather,
                          CollectiveKind::all_to_all, CollectiveKind::broadcast}) {
    const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
    const bool may_be_in_place = kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast;
    const bool has_pieces = kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all;
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
        if (!reduces && reduction == Reduction::max) continue;
        for (const std::int64_t elements : {0, 1, 2, 63, 64, 65, 1000, 4099}) {
          cases.push_back({kind, reduction, dtype, has_pieces ? elements * ranks : elements, false, ranks});
          if (may_be_in_place) cases.push_back({kind, reduction, dtype, elements, true, ranks});
        }
      }
    }
  }
  return cases;
}

/// Runs this rank's part. \return whether it got what it should.
bool run_case(Communicator& communicator, Device& device, const CollectiveCase& test, int group, std::uint64_t id) {
  const int rank = communicator.rank();
  const int root = test.ranks - 1;
  const std::string name = "collective";
  const std::vector<double> wanted = expected(test, rank, root);
  std::vector<double> mine;
  for (std::int64_t i = 0; i < test.elements; ++i) mine.push_back(contribution(rank, i));
  DeviceNumbers input(device, test.dtype, test.elements);
  DeviceNumbers output(device, test.dtype, static_cast<std::int64_t>(wanted.size()));
  (test.in_place ? output : input).set(mine);
  CollectiveCall call{.kind = test.kind, .reduction = test.reduction, .dtype = test.dtype, .group = group};
  call.root = root;
  call.input = test.in_place ? output.data() : input.data();
  call.output = output.data();
  call.elements = test.elements;
  call.id = id;
  call.name = &name;
  communicator.start(call)->wait();
  const bool is_right = output.get() == wanted;
  // No rank may free its input while a peer still reads it.
  device.synchronize(StreamKind::compute);
  return is_right;
}

/// Two ranks gather into the memory that their pieces lie in, and scatter the sums into the memory of the input.
void gather_and_scatter_in_place(Communicator& communicator, Device& device) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const std::string name = "in place";
  DeviceNumbers numbers(device, DType::f64, 2);
  std::vector<double> mine(2);
  mine[rank] = 10.0 + static_cast<double>(rank);
  numbers.set(mine);
  CollectiveCall call{
      .kind = CollectiveKind::all_gather, .dtype = DType::f64, .group = communicator.create_group({0, 1})};
  call.input = numbers.at(static_cast<std::int64_t>(rank));
  call.output = numbers.data();
  call.elements = 1;
  call.id = 1;
  call.name = &name;
  communicator.start(call)->wait();
  if (numbers.get() != std::vector<double>{10, 11}) throw CheckFailed("all_gather into the memory of its input");
  call.kind = CollectiveKind::reduce_scatter;
  call.input = numbers.data();
  call.output = numbers.at(static_cast<std::int64_t>(rank));
  call.elements = 2;
  call.id = 2;
  communicator.start(call)->wait();
  const std::vector<double> wanted = rank == 0 ? std::vector<double>{20, 11} : std::vector<double>{10, 22};
  if (numbers.get() != wanted) throw CheckFailed("reduce_scatter into the memory of its input");
}

const std::string kFaultName = "bucket";

/// One all_reduce of eight numbers, which `change` may alter.
void run_changed(Communicator& communicator, Device& device, const std::function<void(CollectiveCall&)>& change) {
  DeviceNumbers input(device, DType::f64, 32);
  DeviceNumbers output(device, DType::f64, 32);
  CollectiveCall call{.group = communicator.create_group(all_ranks(communicator.rank_count()))};
  call.input = input.data();
  call.output = output.data();
  call.elements = 8;
  call.id = 17;
  call.name = &kFaultName;
  change(call);
  communicator.start(call)->wait();
  device.synchronize(StreamKind::compute);
  communicator.check();
}

using Change = std::pair<const char*, std::function<void(CollectiveCall&)>>;

void require_errors(const std::vector<std::string>& errors, const std::string& what) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank].empty()) continue;
    throw CheckFailed(what + ": rank " + std::to_string(rank) + " gets no error");
  }
}

}  // namespace

void try_collectives(const CommunicatorBench& bench, int ranks) {
  const auto errors = run_ranks(bench, ranks, [&](Communicator& communicator, Device& device) {
    const int group = communicator.create_group(all_ranks(ranks));
    std::uint64_t id = 0;
    for (const CollectiveCase& test : all_cases(ranks)) {
      if (!run_case(communicator, device, test, group, ++id)) throw CheckFailed(test.describe() + ": a wrong result");
    }
  });
  require_no_error(errors, "collectives");
}

void try_groups(const CommunicatorBench& bench) {
  // Ranks 2 and 0, in that order, and rank 1 alone. Then all ranks in another order.
  const auto errors = run_ranks(bench, 3, [&](Communicator& communicator, Device& device) {
    const int rank = communicator.rank();
    const auto gather = [&](const std::vector<int>& members, std::uint64_t id) {
      const std::string name = "gather";
      std::vector<double> wanted(members.begin(), members.end());
      DeviceNumbers input(device, DType::f32, 1);
      DeviceNumbers output(device, DType::f32, static_cast<std::int64_t>(members.size()));
      input.set({static_cast<double>(rank)});
      CollectiveCall call{.kind = CollectiveKind::all_gather, .group = communicator.create_group(members)};
      call.input = input.data();
      call.output = output.data();
      call.elements = 1;
      call.id = id;
      call.name = &name;
      communicator.start(call)->wait();
      if (output.get() != wanted) throw CheckFailed("pieces do not lie in the order of the group");
    };
    gather(rank == 1 ? std::vector<int>{1} : std::vector<int>{2, 0}, 1);
    gather({1, 2, 0}, 2);
  });
  require_no_error(errors, "groups");
  require_no_error(run_ranks(bench, 2, gather_and_scatter_in_place), "in place");
}

void try_mismatches(const CommunicatorBench& bench) {
  const Change mismatches[] = {
      {"another kind", [](CollectiveCall& call) { call.kind = CollectiveKind::broadcast; }},
      {"another type", [](CollectiveCall& call) { call.dtype = DType::f64; }},
      {"another number of elements", [](CollectiveCall& call) { call.elements = 9; }},
      {"another reduction", [](CollectiveCall& call) { call.reduction = Reduction::max; }},
      {"another id", [](CollectiveCall& call) { call.id = 18; }},
  };
  for (const Change& mismatch : mismatches) {
    const auto errors = run_ranks(bench, 3, [&](Communicator& communicator, Device& device) {
      const bool differs = communicator.rank() == 1;
      run_changed(
          communicator, device, differs ? mismatch.second : [](CollectiveCall&) {});
    });
    require_errors(errors, std::string("one rank calls a collective with ") + mismatch.first);
  }
}

void try_impossible_groups(const CommunicatorBench& bench) {
  for (const std::vector<int>& ranks : {std::vector<int>{1}, {0, 0}, {0, 2}, {}}) {
    const auto errors = run_ranks(bench, 2, [&](Communicator& communicator, Device&) {
      if (communicator.rank() == 0) static_cast<void>(communicator.create_group(ranks));
    });
    if (errors[0].empty()) {
      throw CheckFailed("rank 0 of 2 makes a group of " + std::to_string(ranks.size()) +
                        " ranks that cannot be one (without itself, with a repeated or an unknown rank, or empty)");
    }
  }
}

void try_timeout(const CommunicatorBench& bench) {
  const auto errors = run_ranks(bench, 2, [&](Communicator& communicator, Device& device) {
    if (communicator.rank() == 0) run_changed(communicator, device, [](CollectiveCall&) {});
  });
  if (errors[0].empty()) throw CheckFailed("rank 0 runs a collective that rank 1 never joins, and gets no error");
  for (const char* part : {"rank 1", "bucket"}) {
    if (errors[0].find(part) != std::string::npos) continue;
    throw CheckFailed("the error of a rank that waits in vain is '" + errors[0] + "'; it does not name " + part);
  }
}

}  // namespace strata::host
