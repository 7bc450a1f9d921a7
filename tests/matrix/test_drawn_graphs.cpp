#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

#include "build_paths.hpp"
#include "matrix/drawn_run.hpp"
#include "matrix/proof.hpp"
#include "matrix/summary.hpp"
#include "sanitized.hpp"

#if defined(__SANITIZE_THREAD__)
/// Both threads may load the same plugin. The loader guards its list of libraries by a lock that the thread sanitizer
/// does not see, so a read of that list is no race.
extern "C" const char* __tsan_default_suppressions() { return "race:strata::LibraryFile::require_loaded"; }
#endif

namespace strata::testing {
namespace {

constexpr std::uint64_t kGraphs = kSanitized ? 10 : 200;

/// Graphs that are no GPT: a run that the check accepts neither hangs nor trains or evaluates differently from one
/// rank.
TEST(DrawnGraphs, TrainAndEvaluateAsOneRank) {
  Summary summary;
  std::mutex mutex;
  std::atomic<std::uint64_t> next = 0;
  const auto work = [&] {
    Prover prover(drawn_plugin_folders(plugin_folder()));
    for (std::uint64_t number = next++; number < kGraphs; number = next++) {
      const std::string name = "graph-" + std::to_string(number) + ".toml";
      const std::string toml = drawn_run(number);
      const Proof proof = prover.prove(toml, name);
      const std::lock_guard lock(mutex);
      summary.add(name, toml, proof);
      EXPECT_NE(proof.verdict, Verdict::fails) << name << ::testing::PrintToString(proof.findings) << '\n' << toml;
    }
  };
  std::vector<std::thread> threads;
  for (int job = 0; job < 2; ++job) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  summary.print(std::cout);
  EXPECT_FALSE(summary.has_failures());
}

}  // namespace
}  // namespace strata::testing
