/// \file
/// Processes of a run that die, that never come, or that are refused.

#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <thread>

#include "processes/port_stranger.hpp"
#include "processes/training_processes.hpp"
#include "train/command_runner.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Waits until `holds`. \return false after two minutes.
bool await(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class Faults : public Training {};

TEST_F(Faults, AKilledProcessEndsTheOthersWithItsName) {
  for (const int killed : {0, 1}) {
    testing::ProcessGroup group;
    const std::string port = free_port();
    start(group, 0, port, endless(60));
    start(group, 1, port, endless(60));
    ASSERT_TRUE(await([&] { return group.output(0).find("step 5/") != std::string::npos; })) << group.output(0);
    group.send(static_cast<std::size_t>(killed), SIGKILL);
    const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
    const testing::GroupEnd& survivor = ends[static_cast<std::size_t>(1 - killed)];
    EXPECT_EQ(survivor.exit_code, 1) << "signal " << survivor.signal << "\n" << survivor.output;
    EXPECT_THAT(survivor.output,
                AllOf(HasSubstr("rank " + std::to_string(killed)),
                      HasSubstr(killed == 0 ? "the connection to rank 0" : "has ended without a word")));
  }
}

TEST_F(Faults, AKilledProcessOfThreadsIsNamedWithItsRanks) {
  testing::ProcessGroup group;
  const std::string port = free_port();
  for (int process = 0; process < 2; ++process) {
    std::vector<std::string> words = endless(60);
    for (const std::string& setting : two_by_two()) words.insert(words.end(), {"--set", setting});
    start(group, process, port, words);
  }
  ASSERT_TRUE(await([&] { return group.output(0).find("step 5/") != std::string::npos; })) << group.output(0);
  group.send(1, SIGKILL);
  const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
  EXPECT_EQ(ends[0].exit_code, 1) << ends[0].output;
  EXPECT_THAT(ends[0].output, HasSubstr("process 1 (ranks 2 and 3) (127.0.0.1) has ended without a word"));
}

TEST_F(Faults, ProcessesMustBeAsManyAsTheirThreadsNeed) {
  testing::ProcessGroup group;
  const auto with = [&](const std::string& ranks_per_process) {
    std::vector<std::string> words = arguments("train", "gloo", {two_by_two().front()});
    words.insert(words.end(), {"--set", "communicator.ranks_per_process=" + ranks_per_process});
    return words;
  };
  start(group, 0, free_port(), with("1"));
  start(group, 0, free_port(), with("3"));
  start(group, 0, free_port(), with("4"));
  const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
  EXPECT_THAT(ends[0].output, HasSubstr("found 2 processes; accepted: one for each of the mesh's 4 ranks"));
  EXPECT_THAT(ends[1].output, HasSubstr("ranks_per_process: found 3; accepted: a divisor of the mesh's 4 ranks"));
  EXPECT_THAT(ends[2].output, HasSubstr("found 2 processes; accepted: 1, each with 4 (ranks_per_process)"));
  for (const testing::GroupEnd& end : ends) EXPECT_EQ(end.exit_code, 2) << end.output;
}

/// A port scanner takes a place on gloo's ports, and the ranks connect again.
TEST_F(Faults, StrangersOnThePortsOfRanksAreOutlived) {
  testing::ProcessGroup group;
  const std::string port = free_port();
  const testing::PortStranger stranger(std::stoi(port), 3);
  // A rank waits for a twentieth of this time until it takes its peer for a stranger.
  const std::vector<std::string> words = arguments("train", "gloo", {test::ddp(2), "communicator.start_timeout=40"});
  for (int rank = 0; rank < 2; ++rank) start(group, rank, port, words);
  for (const testing::GroupEnd& end : group.wait(std::chrono::seconds(120))) EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST_F(Faults, AProcessThatNeverJoinsIsNamed) {
  testing::ProcessGroup group;
  start(group, 0, free_port(), endless(1));
  const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
  EXPECT_NE(ends[0].exit_code, 0);
  EXPECT_THAT(ends[0].output, HasSubstr("waited in vain for rank 1 to join rank 0"));
}

TEST_F(Faults, AProcessThatIsRefusedTellsTheOthersWhy) {
  for (const int refused : {0, 1}) {
    testing::ProcessGroup group;
    const std::string port = free_port();
    std::vector<std::string> words = endless(3600);
    start(group, 1 - refused, port, words);
    words.insert(words.end(), {"--set", "data.path=\"/no/such/text\""});
    start(group, refused, port, words);
    const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
    EXPECT_EQ(ends[1].exit_code, 2) << ends[1].output;
    EXPECT_EQ(ends[0].exit_code, 1) << ends[0].output;
    EXPECT_THAT(ends[0].output, AllOf(HasSubstr("rank " + std::to_string(refused) + " left before it connected: "),
                                      HasSubstr("/no/such/text")));
  }
}

TEST_F(Faults, ALoneProcessSaysHowToLaunch) {
  const CommandResult result = run_command(arguments("train", "gloo", {test::ddp(2)}));
  EXPECT_EQ(result.exit_code, 2) << result.messages;
  EXPECT_THAT(result.messages,
              AllOf(HasSubstr("communicator 'gloo'"), HasSubstr("started alone"), HasSubstr("strata launch")));
  const CommandResult one = run_command(arguments("train", "gloo", {"run.steps=1"}));
  EXPECT_EQ(one.exit_code, 0) << one.messages;
  // The program is checked without processes.
  const CommandResult check =
      run_command({"check", config_, "--set", test::ddp(2), "--set", "communicator.plugin=gloo"});
  EXPECT_EQ(check.exit_code, 0) << check.messages;
}

}  // namespace
}  // namespace strata::host
