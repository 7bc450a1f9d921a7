/// \file
/// `strata verify --ops`: gradients against finite differences, and every kernel against the reference. Wrong ones are
/// reported with the op and its plugin.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "build_paths.hpp"
#include "command_runner.hpp"
#include "sanitized.hpp"
#include "verify/verification.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
using test::CommandResult;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A model with the op `tripled` of the library `faulty_ops`.
constexpr const char* kModelWithOp = R"([model]
plugin = "sample_model"
op = "tripled"
[data]
path = "none"
[batch]
global = 4
micro = 2
[device]
plugin = "cpu"
threads = 1
[communicator]
plugin = "local"
)";

std::string library(const std::string& options) { return "library=[{plugin=\"faulty_ops\"" + options + "}]"; }

class OpVerificationTest : public ::testing::Test {
 protected:
  [[nodiscard]] OpVerification verify(const std::vector<std::string>& overrides) {
    return verify_ops(parse_configuration(kModelWithOp, "ops.toml", overrides), registry_, {});
  }

  /// "op of plugin" for every wrong gradient.
  [[nodiscard]] static std::vector<std::string> wrong_gradients(const OpVerification& found) {
    std::vector<std::string> wrong;
    for (const GradientCheck& each : found.gradients) {
      if (!each.holds()) wrong.push_back(each.op + " of " + each.origin);
    }
    return wrong;
  }
  [[nodiscard]] static std::vector<std::string> wrong_kernels(const OpVerification& found) {
    std::vector<std::string> wrong;
    for (const KernelCheck& each : found.kernels) {
      if (!each.holds()) wrong.push_back(each.op + " of " + each.origin + ": " + each.types);
    }
    return wrong;
  }
  [[nodiscard]] static const GradientCheck* gradient_of(const OpVerification& found, const std::string& op) {
    const auto check = std::find_if(found.gradients.begin(), found.gradients.end(),
                                    [&](const GradientCheck& each) { return each.op == op; });
    return check == found.gradients.end() ? nullptr : &*check;
  }
  [[nodiscard]] static const KernelCheck* kernel_of(const OpVerification& found, const std::string& op) {
    const auto check = std::find_if(found.kernels.begin(), found.kernels.end(),
                                    [&](const KernelCheck& each) { return each.op == op; });
    return check == found.kernels.end() ? nullptr : &*check;
  }

  PluginRegistry registry_{{sample_plugin_folder(), plugin_folder()}};
};

/// Norms over two elements give ±1 for any input, so almost all terms of the sums over tokens cancel out.
TEST_F(OpVerificationTest, AcceptsSumsWhoseTermsCancelOut) {
  if (testing::kSanitized) GTEST_SKIP() << "too slow; the kernels of other tests are the same";
  constexpr const char* kTwoWide = R"([model]
plugin = "gpt2"
layers = 1
heads = 1
embed = 2
context = 256
[data]
path = "none"
[batch]
global = 16
micro = 16
[device]
plugin = "cpu"
threads = 1
[communicator]
plugin = "local"
)";
  VerificationOptions options;
  options.full = true;
  const OpVerification found = verify_ops(parse_configuration(kTwoWide, "two-wide.toml", {}), registry_, options);
  EXPECT_THAT(wrong_kernels(found), IsEmpty());
}

TEST_F(OpVerificationTest, AcceptsAPluginsOpThatIsRight) {
  const OpVerification found = verify({library("")});
  EXPECT_TRUE(found.holds());
  EXPECT_EQ(found.device, "cpu");
  const GradientCheck* gradient = gradient_of(found, "tripled");
  ASSERT_NE(gradient, nullptr);
  EXPECT_EQ(gradient->origin, "library 1 'faulty_ops'");
  EXPECT_EQ(gradient->node, "of_the_test");
  EXPECT_LE(gradient->error, GradientCheck::kTolerance);
  const KernelCheck* kernel = kernel_of(found, "tripled");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->origin, "library 1 'faulty_ops'");
  EXPECT_EQ(kernel->types, "f32 -> f32");
  // Forward and backward passes of two micro-batches in two steps, two evaluations of two micro-batches, and an
  // evaluation alone.
  EXPECT_EQ(kernel->launches, 2 * 2 * 2 + 2 * 2 + 2);
  EXPECT_EQ(kernel_of(found, "linear")->origin, "device 'cpu'");
}

TEST_F(OpVerificationTest, TellsItsProgress) {
  VerificationOptions options;
  std::map<std::string, std::pair<std::size_t, std::size_t>> last;
  options.progress = [&](const std::string& what, std::size_t done, std::size_t all) { last[what] = {done, all}; };
  static_cast<void>(verify_ops(parse_configuration(kModelWithOp, "ops.toml", {library("")}), registry_, options));
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last.at("nodes of the graph").first + 1, last.at("nodes of the graph").second);
  EXPECT_EQ(last.at("kernel launches").first, last.at("kernel launches").second);
}

/// The faulty rule returns dy instead of 3 · dy.
TEST_F(OpVerificationTest, NamesTheOpWithAWrongGradientAndItsPlugin) {
  const OpVerification found = verify({library(", gradient=\"wrong\"")});
  EXPECT_FALSE(found.holds());
  EXPECT_THAT(wrong_gradients(found), ElementsAre("tripled of library 1 'faulty_ops'"));
  EXPECT_THAT(wrong_kernels(found), IsEmpty());
  EXPECT_NEAR(gradient_of(found, "tripled")->error, 2.0 / 3, 0.4) << "relative to the larger of the two";
}

/// The result jumps everywhere, so no finite difference is right.
TEST_F(OpVerificationTest, AsksForNoGradientOfAnOperandThatOnlyChooses) {
  const auto wrong = [&](const std::string& chooses) {
    return wrong_gradients(verify({library(", chooses=\"" + chooses + "\""), "model.op=chosen"}));
  };
  EXPECT_THAT(wrong("right"), IsEmpty());
  EXPECT_THAT(wrong("missing"), ElementsAre("chosen of library 1 'faulty_ops'"));
  EXPECT_THAT(wrong("with a gradient"), ElementsAre("chosen of library 1 'faulty_ops'"));
}

/// The faulty kernel multiplies by 3.01.
TEST_F(OpVerificationTest, NamesTheOpWithAWrongKernelItsPluginAndTheDevice) {
  const OpVerification found = verify({library(", kernel=\"wrong\"")});
  EXPECT_FALSE(found.holds());
  EXPECT_THAT(wrong_gradients(found), IsEmpty()) << "gradients are those of the reference kernels";
  EXPECT_THAT(wrong_kernels(found), ElementsAre("tripled of library 1 'faulty_ops': f32 -> f32"));
  EXPECT_EQ(found.device, "cpu");
  EXPECT_GT(kernel_of(found, "tripled")->error, 100);
  EXPECT_THAT(kernel_of(found, "tripled")->worst, HasSubstr("result 0 of 'of_the_test"));
  // The reference device does not run the kernel.
  EXPECT_TRUE(verify({library(", kernel=\"wrong\""), "device.plugin=reference"}).holds());
}

/// The derivative of relu jumps at 0, where every finite difference is wrong.
TEST_F(OpVerificationTest, AcceptsAnOpWithAKink) {
  const OpVerification found = verify({library(""), "model.activation=relu"});
  EXPECT_THAT(wrong_gradients(found), IsEmpty());
  EXPECT_THAT(wrong_kernels(found), IsEmpty());
  ASSERT_NE(gradient_of(found, "activation"), nullptr);
}

TEST_F(OpVerificationTest, AcceptsEveryOpOfTheQuickstart) {
  for (const std::string device : {"cpu", "reference"}) {
    SCOPED_TRACE(device);
    const OpVerification found = verify_ops(
        load_configuration(source_path("configs/quickstart.toml"), {"device.plugin=" + device}), registry_, {});
    EXPECT_THAT(wrong_gradients(found), IsEmpty());
    EXPECT_THAT(wrong_kernels(found), IsEmpty());
    for (const char* op : {"embedding", "linear", "layer_norm", "activation", "attention", "cross_entropy"}) {
      EXPECT_NE(gradient_of(found, op), nullptr) << op;
    }
    for (const char* op : {"embedding", "layer_norm", "attention", "attention_gradient", "adamw_update"}) {
      ASSERT_NE(kernel_of(found, op), nullptr) << op;
      EXPECT_GT(kernel_of(found, op)->launches, 0) << op;
    }
  }
}

/// The report contains the names, and the exit code reports the failure.
TEST_F(OpVerificationTest, TheCommandReportsOpPluginAndDevice) {
  test::TemporaryFolder folder;
  const std::string config = folder.file("ops.toml", kModelWithOp).string();
  ::setenv("STRATA_PLUGIN_PATH", sample_plugin_folder().c_str(), 1);
  const auto run = [&](const std::string& options, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"verify", config, "--ops", "--set", library(options)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_command(arguments);
  };
  const CommandResult right = run("");
  EXPECT_EQ(right.exit_code, 0) << right.messages;
  EXPECT_THAT(right.out, AllOf(HasSubstr("all gradients and kernels are right\n"), Not(HasSubstr("WRONG"))));
  const CommandResult gradient = run(", gradient=\"wrong\"");
  EXPECT_EQ(gradient.exit_code, 1);
  EXPECT_THAT(gradient.out, HasSubstr("WRONG: the gradient of 'tripled' of library 1 'faulty_ops'\n"));
  const CommandResult kernel = run(", kernel=\"wrong\"");
  EXPECT_EQ(kernel.exit_code, 1);
  EXPECT_THAT(kernel.out, AllOf(HasSubstr("kernels of device 'cpu'"),
                                HasSubstr("WRONG: the kernel of 'tripled' of library 1 'faulty_ops'\n")));
  const json report = json::parse(run(", kernel=\"wrong\"", {"--json"}).out);
  EXPECT_EQ(report.at("ok"), false);
  EXPECT_EQ(report.at("device"), "cpu");
  ::unsetenv("STRATA_PLUGIN_PATH");
}

}  // namespace
}  // namespace strata::host
