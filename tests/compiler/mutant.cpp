#include "mutant.hpp"

#include <gmock/gmock.h>

#include "compiler/check/program_check.hpp"
#include "strata/error.hpp"

namespace strata::host::test {
namespace {

std::string first_fault(const RandomRanks& random, int rank, const Program& mutant) {
  try {
    verify(mutant, test_ops(), "the mutation", true);
  } catch (const VerificationError& error) {
    return error.what();
  }
  return find_communication_fault(random.ranks(rank, &mutant), {}).value_or("");
}

}  // namespace

void expect_refused(const Mutation& mutation) {
  int applied = 0;
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    const RandomRanks random = make_random_ranks(seed);
    const int rank = static_cast<int>(seed) % random.mesh.rank_count();
    Mutant mutant(random.stages[static_cast<std::size_t>(random.stage_of(rank))], seed);
    mutation.apply(mutant);
    if (!mutant.applied) continue;
    ++applied;
    EXPECT_THAT(first_fault(random, rank, mutant.program), ::testing::ContainsRegex(mutation.expected))
        << "seed " << seed;
  }
  EXPECT_GE(applied, 6);
}

}  // namespace strata::host::test
