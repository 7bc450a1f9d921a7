#include "processes/rank_cases.hpp"

#include <algorithm>

#include "conformance/check.hpp"

namespace strata::testing {
namespace {

using host::CheckFailed;
using host::CommunicatorBench;
using host::DeviceNumbers;
using host::require_no_error;

const std::string kName = "bucket";

CollectiveCall call_of(CollectiveKind kind, DType dtype, const DeviceNumbers& input, const DeviceNumbers& output,
                       std::int64_t elements, std::uint64_t id) {
  CollectiveCall call{.kind = kind, .dtype = dtype};
  call.input = input.data();
  call.output = output.data();
  call.elements = elements;
  call.id = id;
  call.name = &kName;
  return call;
}

/// In f32, 2^24 + 1 - 2^24 is 0 in the order of ranks and 1 in another order. The last element checks that long
/// messages, which travel in chunks, are added in that order too.
void try_order(const CommunicatorBench& bench, int ranks) {
  const double values[] = {0x1p24, 1, -0x1p24};
  for (const std::int64_t elements : {1, 3'000'000}) {
    const auto errors = run_ranks(bench, ranks, [&](Communicator& communicator, Device& device) {
      DeviceNumbers numbers(device, DType::f32, elements);
      std::vector<double> mine(static_cast<std::size_t>(elements), values[communicator.rank()]);
      numbers.set(mine);
      CollectiveCall call = call_of(CollectiveKind::all_reduce, DType::f32, numbers, numbers, elements, 1);
      call.group = communicator.create_group(host::all_ranks(ranks));
      communicator.start(call)->wait();
      const std::vector<double> found = numbers.get();
      if (std::any_of(found.begin(), found.end(), [](double value) { return value != 0; })) {
        throw CheckFailed("a sum is not added in the order of ranks");
      }
    });
    require_no_error(errors, "order of additions");
  }
}

/// What a rank contributes to an element: small integers, whose sums are exact.
double part_of(int rank, std::int64_t element) { return static_cast<double>((element + 5 * rank) % 17 - 8); }

double sum_of(int ranks, std::int64_t element) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += part_of(rank, element);
  return sum;
}

/// Collectives of several chunks for each rank, with pieces of unequal lengths.
void try_long_ones(const CommunicatorBench& bench, int ranks) {
  constexpr std::int64_t kPiece = 2'200'003;
  const std::int64_t all = kPiece * ranks;
  const auto errors = run_ranks(bench, ranks, [&](Communicator& communicator, Device& device) {
    const int rank = communicator.rank();
    const int group = communicator.create_group(host::all_ranks(ranks));
    DeviceNumbers input(device, DType::f32, all);
    DeviceNumbers output(device, DType::f32, all);
    std::vector<double> mine;
    for (std::int64_t i = 0; i < all; ++i) mine.push_back(part_of(rank, i));
    input.set(mine);
    std::uint64_t id = 0;
    const auto run = [&](CollectiveKind kind, std::int64_t elements) {
      CollectiveCall call = call_of(kind, DType::f32, input, output, elements, ++id);
      call.group = group;
      communicator.start(call)->wait();
      return output.get();
    };
    const auto require = [&](CollectiveKind kind, const std::vector<double>& found, std::int64_t count,
                             const auto& expected) {
      for (std::int64_t i = 0; i < count; ++i) {
        if (found[static_cast<std::size_t>(i)] == expected(i)) continue;
        throw CheckFailed(std::string(to_string(kind)) + ": element " + std::to_string(i) + " is " +
                          std::to_string(found[static_cast<std::size_t>(i)]));
      }
    };
    const auto check = [&](CollectiveKind kind, std::int64_t elements, std::int64_t count, const auto& expected) {
      require(kind, run(kind, elements), count, expected);
    };
    check(CollectiveKind::all_reduce, all - 1, all - 1, [&](std::int64_t i) { return sum_of(ranks, i); });
    check(CollectiveKind::reduce_scatter, all, kPiece,
          [&](std::int64_t i) { return sum_of(ranks, kPiece * rank + i); });
    check(CollectiveKind::all_gather, kPiece, all,
          [&](std::int64_t i) { return part_of(static_cast<int>(i / kPiece), i % kPiece); });
    check(CollectiveKind::all_to_all, all, all,
          [&](std::int64_t i) { return part_of(static_cast<int>(i / kPiece), kPiece * rank + i % kPiece); });
    check(CollectiveKind::broadcast, all - 1, all - 1, [&](std::int64_t i) { return part_of(0, i); });
  });
  require_no_error(errors, "long collectives");
}

/// The error of ranks whose calls differ names both calls.
void try_names(const CommunicatorBench& bench, int ranks) {
  const auto errors = run_ranks(bench, ranks, [&](Communicator& communicator, Device& device) {
    DeviceNumbers numbers(device, DType::f32, 8);
    CollectiveCall call =
        call_of(CollectiveKind::all_reduce, DType::f32, numbers, numbers, 8, communicator.rank() == 0 ? 17 : 18);
    call.group = communicator.create_group(host::all_ranks(ranks));
    communicator.start(call)->wait();
  });
  for (const std::string& error : errors) {
    const bool names_both = error.find("(id 17)") != std::string::npos && error.find("(id 18)") != std::string::npos;
    if (!names_both) throw CheckFailed("the error of calls that differ does not name both: '" + error + "'");
  }
}

/// Ends of a message that differ in length are an error on both.
void try_lengths(const CommunicatorBench& bench, int ranks) {
  const auto errors = run_ranks(bench, ranks, [](Communicator& communicator, Device& device) {
    const int rank = communicator.rank();
    DeviceNumbers numbers(device, DType::f32, 8 + rank);
    MessageCall call{.peer = 1 - rank, .data = numbers.data(), .bytes = numbers.bytes(), .id = 3, .name = &kName};
    (rank == 0 ? communicator.send(call) : communicator.receive(call))->wait();
  });
  for (const std::string& error : errors) {
    if (error.find("sends 32 bytes, rank 1 receives 36") == std::string::npos) {
      throw CheckFailed("a message of another length than its receiver expects gives '" + error + "'");
    }
  }
}

}  // namespace

const std::vector<RankCase>& rank_cases() {
  static const std::vector<RankCase> cases{
      {"collectives", [](const CommunicatorBench& bench, int ranks) { host::try_collectives(bench, ranks); }},
      {"long", try_long_ones},
      {"marked_rows",
       [](const CommunicatorBench& bench, int ranks) {
         host::try_marked_rows(bench, ranks, {{3, 5}, {40, 64}, {1500, 1500}});
       }},
      {"order", try_order},
      {"groups", [](const CommunicatorBench& bench, int) { host::try_groups(bench); }},
      {"messages", [](const CommunicatorBench& bench, int) { host::try_messages(bench); }},
      {"interleaving",
       [](const CommunicatorBench& bench, int) {
         for (std::uint32_t seed = 0; seed < 2; ++seed) host::try_interleaving(bench, seed);
       }},
      {"mismatches", [](const CommunicatorBench& bench, int) { host::try_mismatches(bench); }},
      {"impossible_groups", [](const CommunicatorBench& bench, int) { host::try_impossible_groups(bench); }},
      {"names", try_names},
      {"lengths", try_lengths},
      {"abort", [](const CommunicatorBench& bench, int) { host::try_abort(bench, 10); }, 3600},
      {"timeout", [](const CommunicatorBench& bench, int) { host::try_timeout(bench); }, 0.5},
  };
  return cases;
}

}  // namespace strata::testing
