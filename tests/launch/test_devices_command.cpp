#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "train/command_runner.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
using test::CommandResult;
using test::run_command;
using ::testing::HasSubstr;

TEST(DevicesCommand, ListsWhatThePluginsFind) {
  const CommandResult text = run_command({"devices"});
  EXPECT_EQ(text.exit_code, 0) << text.messages;
  EXPECT_THAT(text.out, HasSubstr("cpu: "));
  EXPECT_THAT(text.out, HasSubstr("reference: "));

  const CommandResult result = run_command({"devices", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  int found = 0;
  const json document = json::parse(result.out);
  for (const json& device : document.at("devices")) {
    if (device.contains("error")) {
      // Without a GPU, the plugins for GPUs report an error.
      EXPECT_NE(device.at("error"), "") << device;
      continue;
    }
    EXPECT_NE(device.at("description"), "") << device;
    EXPECT_GT(device.at("memory_bytes"), 0) << device;
    if (device.at("plugin") == "cpu" || device.at("plugin") == "reference") ++found;
  }
  EXPECT_EQ(found, 2) << "a machine is one device of each";
}

TEST(NcclPlugin, CanBeLookedAtWithoutGpu) {
  const CommandResult listed = run_command({"plugins", "list"});
  if (listed.out.find("communicator_nccl.so") == std::string::npos) GTEST_SKIP() << "built without NCCL";
  const CommandResult shown = run_command({"plugins", "show", "nccl"});
  EXPECT_EQ(shown.exit_code, 0) << shown.messages;
  EXPECT_THAT(shown.out, HasSubstr("start_timeout"));
  EXPECT_THAT(shown.out, HasSubstr("libnccl.so.2"));
}

}  // namespace
}  // namespace strata::host
