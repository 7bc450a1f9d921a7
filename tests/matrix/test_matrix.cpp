#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "build_paths.hpp"
#include "matrix/covering_stacks.hpp"
#include "matrix/proof.hpp"
#include "matrix/summary.hpp"
#include "sanitized.hpp"

namespace strata::testing {
namespace {

/// Largest number of stacks that hold. The first stacks cover the most pairs; the program strata_matrix proves any
/// number.
constexpr int kMostStacks = kSanitized ? 2 : 70;

/// The first stacks of a set with every value of every option together with every value of every other option, and
/// every strategy inside and outside of every other strategy: the stack trains like one rank, unless the grammar lists
/// a conflict. So an unnecessary refusal fails too.
TEST(Matrix, EveryPairOfOptionsTrainsAsOneRank) {
  Prover prover({plugin_folder()});
  CoveringStacks stacks;
  Summary summary;
  int accepted = 0;
  for (auto stack = stacks.next(); stack && accepted < kMostStacks; stack = stacks.next()) {
    const std::string toml = to_toml(*stack);
    const Proof proof = prover.prove(toml, "covering.toml");
    summary.add("covering.toml", toml, proof);
    if (proof.verdict == Verdict::refused) {
      stacks.refuse(proof.findings.front());
      continue;
    }
    stacks.accept();
    ++accepted;
    EXPECT_EQ(proof.verdict, Verdict::holds) << ::testing::PrintToString(proof.findings) << '\n' << toml;
  }
  EXPECT_THAT(stacks.given_up(), ::testing::IsEmpty());
  EXPECT_GE(accepted, kSanitized ? kMostStacks : 50) << "too few to hold every pair";
  summary.print(std::cout);
  std::cout << stacks.covered_pairs() << " pairs of options\n";
}

}  // namespace
}  // namespace strata::testing
