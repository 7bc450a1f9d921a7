#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "build_paths.hpp"
#include "cli/command_line.hpp"
#include "cluster/cluster_file.hpp"
#include "files/file_io.hpp"
#include "simulated_cluster.hpp"
#include "train/temporary_folder.hpp"

namespace strata::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct Result {
  int code = 0;
  std::string out;
  std::string messages;
};

Result simulate(std::vector<std::string> further) {
  setenv("STRATA_PLUGIN_PATH", plugin_folder().c_str(), 1);
  const std::string configuration = source_path("configs/dp-pp-tp.toml");
  std::vector<std::string> words{"strata", "simulate", configuration, "--vocab", "256"};
  words.insert(words.end(), further.begin(), further.end());
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  std::ostringstream out;
  std::ostringstream messages;
  const int code = host::run_command_line(static_cast<int>(arguments.size()), arguments.data(), out, messages);
  return {code, out.str(), messages.str()};
}

/// The file of a cluster of two nodes.
class SimulateCommand : public ::testing::Test {
 protected:
  host::test::TemporaryFolder folder_;
  std::string cluster_ = folder_.file("round.toml", host::to_toml(round_cluster(2)));
};

TEST_F(SimulateCommand, NeedsNoDeviceAndNoData) {
  const Result result = simulate({"--cluster", cluster_, "--json"});
  ASSERT_EQ(result.code, 0) << result.messages;
  const json prediction = json::parse(result.out);
  for (const char* key : {"step_seconds", "tokens_per_second", "model_flops_utilization", "hardware_flops_utilization",
                          "peak_bytes", "bubble"}) {
    EXPECT_GT(prediction.at(key).get<double>(), 0) << key;
  }
  EXPECT_LT(prediction.at("model_flops_utilization").get<double>(), 1);
  EXPECT_TRUE(prediction.at("exposed_seconds").contains("tp"));
  EXPECT_NE(prediction.at("bound").get<std::string>(), "");
}

TEST_F(SimulateCommand, WritesTheStepForPerfetto) {
  const std::string path = folder_.path() / "step.json";
  const Result result = simulate({"--cluster", cluster_, "--trace", path});
  ASSERT_EQ(result.code, 0) << result.messages;
  EXPECT_THAT(result.out, HasSubstr("bound by"));
  const json trace = json::parse(host::read_text(path));
  double last = 0;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") last = std::max(last, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  EXPECT_GT(last, 0);
}

TEST_F(SimulateCommand, AsksForACluster) {
  const Result result = simulate({});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.messages, HasSubstr("there is no cluster; accepted: --cluster"));
}

}  // namespace
}  // namespace strata::testing
