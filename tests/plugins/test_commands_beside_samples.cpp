/// \file
/// `strata check`, `verify`, `train` and `devices` with the sample plugins, sound and faulty ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "check_of_faults.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
using test::CommandResult;
using test::run_command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CommandsBesideSamples, CheckAcceptsTheSoundModelAndItsOps) {
  const CommandResult text = run("check", {});
  EXPECT_EQ(text.exit_code, 0) << text.messages;
  const CommandResult printed = run("check", {"library=[{plugin=\"faulty_ops\"}]", "model.op=tripled"}, {"--json"});
  EXPECT_EQ(printed.exit_code, 0) << printed.out;
  EXPECT_EQ(json::parse(printed.out).at("ok"), true);
  EXPECT_THAT(json::parse(printed.out).at("remarks"), IsEmpty());
}

TEST_F(CommandsBesideSamples, CheckOfAMillionMicroBatchesNeedsWhatAHundredNeed) {
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const auto planned = [this](const std::string& count) {
    const CommandResult result = run("check", {"batch.global=" + count, "batch.micro=1"}, {"--json"});
    EXPECT_EQ(result.exit_code, 0) << result.out;
    return json::parse(result.out).at("planned_peak_bytes");
  };
  const json of_hundred = planned("100");
  const auto before = peak_kib();
  EXPECT_EQ(planned("1048576"), of_hundred);
  EXPECT_LT(peak_kib() - before, 100 * 1024) << "24 bytes for each micro-batch of a step, 12 for one of an evaluation";
}

/// The connection is tried by one rank, which a communicator may refuse although it takes the run's ranks.
TEST_F(CommandsBesideSamples, CheckAcceptsACommunicatorForSeveralRanks) {
  const CommandResult text =
      run("check", {"communicator.plugin=faulty_communicator", "communicator.fault=refuses one rank",
                    "strategy=[{plugin=\"ddp\", size=2}]", "batch.micro=2"});
  EXPECT_EQ(text.exit_code, 0) << text.messages;
}

TEST_F(CommandsBesideSamples, AFileThatIsNotThereIsJsonToo) {
  const CommandResult printed = run_command({"check", "/nowhere/run.toml", "--json"});
  EXPECT_EQ(printed.exit_code, 2);
  EXPECT_THAT(json::parse(printed.out).at("error").get<std::string>(), HasSubstr("/nowhere/run.toml"));
}

TEST_F(CommandsBesideSamples, AWrongCommandLineOfCheckIsJsonToo) {
  const CommandResult printed = run("check", {}, {"--json", "--frobnicate"});
  EXPECT_EQ(printed.exit_code, 2);
  const json verdict = json::parse(printed.out, nullptr, false);
  ASSERT_TRUE(verdict.is_object()) << printed.out << printed.messages;
  EXPECT_EQ(verdict.at("ok"), false);
  EXPECT_THAT(verdict.at("error").get<std::string>(), HasSubstr("--frobnicate"));
  const CommandResult text = run("check", {}, {"--frobnicate"});
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_THAT(text.out, IsEmpty());
  EXPECT_THAT(text.messages, HasSubstr("--frobnicate"));
}

TEST_F(CommandsBesideSamples, TextThatIsNotUtf8IsReplacedInJson) {
  const std::vector<std::string> overrides = {"device.plugin=faulty_device", "device.fault=no UTF-8"};
  for (const char* command : {"check", "explain"}) {
    const CommandResult printed = run(command, overrides, {"--json"});
    EXPECT_EQ(printed.exit_code, 0) << printed.out << printed.messages;
    const json document = json::parse(printed.out, nullptr, false);
    ASSERT_TRUE(document.is_object()) << command << printed.out;
    EXPECT_THAT(document.at("remarks").at(0).get<std::string>(), HasSubstr("on \xef\xbf\xbd"));
  }
}

TEST_F(CommandsBesideSamples, CheckRemarksOnWhatIsOfNoUse) {
  const std::vector<std::string> overrides = {
      "strategy=[{plugin=\"recompute\", policy=\"none\"}, {plugin=\"ddp\", size=2}]",
      "batch.micro=2",
      "device.plugin=cpu",
      "device.threads=1",
      "library=[{plugin=\"faulty_ops\", kernel=\"none\"}]",
      "model.op=tripled"};
  const CommandResult text = run("check", overrides);
  EXPECT_EQ(text.exit_code, 0) << text.messages;
  EXPECT_THAT(text.out, HasSubstr("note: strategy 1 'recompute' has no effect on this run\n"));
  EXPECT_THAT(text.out, HasSubstr("note: no fast kernel for tripled on "));
  const json remarks = json::parse(run("check", overrides, {"--json"}).out).at("remarks");
  EXPECT_EQ(remarks.size(), 2U);
  EXPECT_EQ(remarks.at(0), "strategy 1 'recompute' has no effect on this run");
  const CommandResult in_short =
      run("check", {"strategy=[{plugin=\"precision\"}]", "device.plugin=cpu", "device.threads=1",
                    "library=[{plugin=\"faulty_ops\"}]", "model.op=tripled"});
  EXPECT_THAT(in_short.out,
              HasSubstr("note: no fast kernel for tripled (operand 0 cannot be bf16; accepted: f32) on "));
}

TEST_F(CommandsBesideSamples, VerificationComparesTheUpdateWithItsDefinition) {
  const auto with = [&](const std::string& fault) {
    return run("verify", {"optimizer.plugin=faulty_optimizer", "optimizer.fault=" + fault});
  };
  const CommandResult sound = with("none");
  EXPECT_EQ(sound.exit_code, 0) << sound.out << sound.messages;
  const CommandResult wrong = with("wrong definition");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out;
  EXPECT_THAT(wrong.out, HasSubstr("NOT equal within"));
  EXPECT_THAT(with("define throws").messages,
              HasSubstr("optimizer 'faulty_optimizer': hook 'define' threw an exception of type int"));
  EXPECT_THAT(
      with("define shrinks").messages,
      HasSubstr("optimizer 'faulty_optimizer' defines an update that leaves the values with 0 elements; accepted: "));
}

TEST_F(CommandsBesideSamples, CheckRemarksOnAGroupWithoutParameters) {
  const CommandResult text = run("check", {"optimizer.group=[{parameters=[\"tabel\"], lr_factor=2.0}]"});
  EXPECT_EQ(text.exit_code, 0) << text.messages;
  EXPECT_THAT(text.out, HasSubstr("note: optimizer group 1 names no parameter of the model\n"));
}

TEST_F(CommandsBesideSamples, TrainingNamesWhatDeviceAndCommunicatorDoNotGive) {
  const auto failure = [&](const std::vector<std::string>& overrides) {
    const CommandResult result = run("train", overrides);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, 1);
    return result.messages;
  };
  EXPECT_THAT(failure({"device.plugin=faulty_device", "device.fault=allocate"}),
              HasSubstr("the device (faulty) gives no memory (a null pointer) for "));
  EXPECT_THAT(failure({"device.plugin=faulty_device", "device.fault=prepare"}),
              HasSubstr("the device prepares no kernel (a null pointer) for op '"));
  EXPECT_THAT(failure({"communicator.plugin=faulty_communicator"}),
              HasSubstr("the communicator connects rank 0 to nothing (a null pointer)"));
  EXPECT_THAT(failure({"communicator.plugin=faulty_communicator", "communicator.fault=connect throws"}),
              HasSubstr("communicator 'faulty_communicator': hook 'connect' threw an exception of type int"));
  const CommandResult sound = run("train", {"device.plugin=faulty_device", "device.fault=none"});
  EXPECT_EQ(sound.exit_code, 0) << sound.messages;
}

TEST_F(CommandsBesideSamples, TrainingNamesThePluginWhoseFunctionThrows) {
  const auto failure = [&](int exit_code, const std::vector<std::string>& overrides) {
    const CommandResult result = run("train", overrides);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, exit_code);
    return result.messages;
  };
  EXPECT_THAT(failure(1, {"device.plugin=faulty_device", "device.fault=prepare throws"}),
              HasSubstr("device 'faulty_device': hook 'prepare' threw an exception of type int"));
  EXPECT_THAT(failure(1, {"device.plugin=faulty_device", "device.fault=copy_to_host"}),
              HasSubstr("device 'faulty_device': hook 'copy_to_host' threw std::out_of_range: too far"));
  EXPECT_THAT(failure(2, {"communicator.plugin=faulty_communicator", "communicator.fault=refuses the device",
                          "device.plugin=faulty_device", "device.fault=none"}),
              HasSubstr("found 'faulty'; accepted: a GPU"));
  EXPECT_THAT(failure(2, {"communicator.plugin=faulty_communicator", "communicator.fault=ranks_on_host"}),
              HasSubstr("communicator 'faulty_communicator': hook 'ranks_on_host' threw an exception of type int"));
}

TEST_F(CommandsBesideSamples, TheModelIsAskedOnceForItsSizes) {
  const CommandResult result = run("train", {"model.fault=sizes throws later"});
  EXPECT_EQ(result.exit_code, 0) << result.messages;
}

TEST_F(CommandsBesideSamples, DevicesSurviveADeviceThatThrows) {
  const std::string error = "device 'faulty_device': hook 'create' threw an exception of type int";
  const CommandResult text = run_command({"devices"});
  EXPECT_EQ(text.exit_code, 0) << text.messages;
  EXPECT_THAT(text.out, HasSubstr("faulty_device: none: " + error + "\n"));
  EXPECT_THAT(text.out, HasSubstr("cpu: "));
  EXPECT_THAT(text.out, HasSubstr("reference: "));
  const CommandResult printed = run_command({"devices", "--json"});
  EXPECT_EQ(printed.exit_code, 0);
  std::vector<std::string> errors;
  const json document = json::parse(printed.out);
  for (const json& device : document.at("devices")) {
    if (device.at("plugin") == "faulty_device") errors.push_back(device.at("error"));
  }
  EXPECT_THAT(errors, ElementsAre(error));
}

}  // namespace
}  // namespace strata::host
