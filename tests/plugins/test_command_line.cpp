#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <streambuf>
#include <vector>

#include "build_paths.hpp"
#include "cli/command_arguments.hpp"
#include "cli/command_line.hpp"
#include "config/sections.hpp"
#include "sample_files.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

struct Result {
  int code = 0;
  std::string out;
  std::string messages;
};

Result run(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "strata");
  std::ostringstream out;
  std::ostringstream messages;
  const int code = run_command_line(static_cast<int>(arguments.size()), arguments.data(), out, messages);
  return {code, out.str(), messages.str()};
}

/// A plugin folder with a valid and a refused file, found through the environment.
class PluginsCommand : public testing::Test {
 protected:
  PluginsCommand() {
    copy_sample("strategy_sample.so", folder_.path());
    write_file(folder_.path() / "model_broken.so", "nothing");
    ::setenv("STRATA_PLUGIN_PATH", folder_.path().c_str(), 1);
  }
  ~PluginsCommand() override { ::unsetenv("STRATA_PLUGIN_PATH"); }

  TemporaryFolder folder_;
};

TEST_F(PluginsCommand, WarnsOfAFolderThatThePrivateGroupMayWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root is known to have a private group";
  ::chmod(folder_.path().c_str(), 0775);
  const std::string warning = "the folder " + folder_.path().string() + " can be written by its group";
  EXPECT_THAT(run({"plugins", "list"}).out, HasSubstr("warning: " + warning));
  EXPECT_THAT(json::parse(run({"plugins", "list", "--json"}).out)["warnings"][0].get<std::string>(),
              StartsWith(warning));
  const Result shown = run({"plugins", "show", "sample"});
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.messages, AllOf(HasSubstr(warning), HasSubstr("chmod g-w " + folder_.path().string())));
}

/// A mistyped folder would otherwise end in "plugin not found", or in another plugin of the same name.
TEST_F(PluginsCommand, WarnsOfFoldersOfThePathThatCannotBeRead) {
  const std::string file = (folder_.path() / "model_broken.so").string();
  ::setenv("STRATA_PLUGIN_PATH", ("/nowhere/plugins::" + folder_.path().string() + ":/nowhere/plugins:" + file).c_str(),
           1);
  const std::string absent =
      "STRATA_PLUGIN_PATH: the folder '/nowhere/plugins' cannot be read: No such file or directory";
  const Result shown = run({"plugins", "show", "sample"});
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.messages, HasSubstr(absent + "; 1 more warnings: strata plugins list\n"));
  EXPECT_THAT(run({"plugins", "check", "/nowhere/strategy_sample.so"}).messages, HasSubstr(absent));
  EXPECT_THAT(run({"plugins", "list"}).out,
              AllOf(HasSubstr("warning: " + absent + "\n"), HasSubstr("warning: STRATA_PLUGIN_PATH: the folder '" +
                                                                      file + "' cannot be read: Not a directory\n")));
  EXPECT_EQ(json::parse(run({"plugins", "list", "--json"}).out)["warnings"].size(), 2U);
}

TEST_F(PluginsCommand, ListsFoundAndRefusedFiles) {
  const Result text = run({"plugins", "list"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr((folder_.path() / "strategy_sample.so").string() + "\n"));
  EXPECT_THAT(text.out, HasSubstr("refused: " + (folder_.path() / "model_broken.so").string() + ": it is no ELF file"));
  EXPECT_EQ(text.messages, "");

  const json document = json::parse(run({"plugins", "list", "--json"}).out);
  EXPECT_EQ(document["places"][0]["path"], folder_.path().string());
  EXPECT_EQ(document["plugins"][0]["name"], "sample");
  EXPECT_EQ(document["plugins"][0]["kind"], "strategy");
  EXPECT_EQ(document["plugins"][0]["version"], "1.2.3");
  EXPECT_EQ(document["plugins"][0]["abi"], std::to_string(kAbiNumber));
  EXPECT_THAT(document["refused"][0]["reason"].get<std::string>(), StartsWith("it is no ELF file"));
}

TEST_F(PluginsCommand, ShowsOptions) {
  const Result text = run({"plugins", "show", "sample"});
  EXPECT_EQ(text.code, 0) << text.messages;
  EXPECT_THAT(text.out, HasSubstr("size: an integer from 1 to 64; required\n      Ranks along the axis.\n"));
  EXPECT_THAT(text.out, HasSubstr("mode: one of \"plain\", \"fancy\"; default \"plain\"\n"));

  const json plugin = json::parse(run({"plugins", "show", "sample", "--json"}).out)["plugins"][0];
  EXPECT_EQ(plugin["options"][0]["name"], "size");
  EXPECT_EQ(plugin["options"][0]["required"], true);
  EXPECT_EQ(plugin["options"][1]["default"], "plain");
}

TEST(CommandLine, AnUnknownCommandIsRefusedEvenIfHelpIsAskedFor) {
  const Result result = run({"trian", "--help"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.messages, StartsWith("error: there is no command 'trian'; did you mean 'train'?"));
  EXPECT_EQ(run({"train", "--help"}).code, 0);
}

TEST_F(PluginsCommand, RefusesUnknownAndBrokenNames) {
  const Result unknown = run({"plugins", "show", "samples"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.messages, StartsWith("error: plugin 'samples' not found; did you mean 'sample'?"));
  EXPECT_EQ(unknown.out, "");
  const Result broken = run({"plugins", "show", "broken"});
  EXPECT_EQ(broken.code, 2);
  EXPECT_THAT(broken.messages, HasSubstr("model_broken.so: refused: it is no ELF file"));
}

TEST_F(PluginsCommand, ListsOpsOfStrataAndOfPlugins) {
  copy_sample("library_sample_ops.so", folder_.path());
  const Result text = run({"plugins", "ops"});
  EXPECT_EQ(text.code, 0) << text.messages;
  EXPECT_THAT(text.out, ContainsRegex("\nlinear +yes +libstrata +reference\n"));
  EXPECT_THAT(text.out, ContainsRegex("\ndoubled +no +library 'sample_ops' +library 'sample_ops', reference\n"));
  EXPECT_THAT(text.out, ContainsRegex("\ncross_entropy +yes +libstrata +of the ops that it stands for\n"));
  EXPECT_EQ(text.messages, "");

  const json ops = json::parse(run({"plugins", "ops", "--json"}).out);
  EXPECT_TRUE(ops["refused"].empty());
  const auto linear =
      std::find_if(ops["ops"].begin(), ops["ops"].end(), [](const json& each) { return each["name"] == "linear"; });
  ASSERT_NE(linear, ops["ops"].end());
  EXPECT_EQ((*linear)["product"], true);
  EXPECT_EQ((*linear)["gradient"], true);
}

TEST_F(PluginsCommand, ShowsAnOpWithItsKernels) {
  copy_sample("library_sample_ops.so", folder_.path());
  const Result text = run({"plugins", "ops", "doubled"});
  EXPECT_EQ(text.code, 0) << text.messages;
  EXPECT_EQ(
      text.out,
      "doubled, version 1, from library 'sample_ops'\n"
      "  x -> 2 · x.\n"
      "  gradient: none\n"
      "  kernel: runtime host, from library 'sample_ops', rank 100, operands \"t\", results \"t\", real types f32\n"
      "  kernel: runtime host, from library 'sample_ops', rank reference, operands \"t\", results \"t\", real types "
      "f64 f32 bf16 f16, adds to its results\n");
  const json op = json::parse(run({"plugins", "ops", "doubled", "--json"}).out)["ops"][0];
  EXPECT_EQ(op["version"], 1);
  EXPECT_EQ(op["kernels"].size(), 2U);
  EXPECT_EQ(op["kernels"][0]["real_types"], std::vector<std::string>{"f32"});
  EXPECT_THAT(run({"plugins", "ops", "linear_bias"}).out, HasSubstr("  fused of: linear and add\n"));

  const Result unknown = run({"plugins", "ops", "double"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.messages, "error: there is no op 'double'; did you mean 'doubled'?; see strata plugins ops\n");
}

/// A plugin that fails does not hide the ops of the others.
TEST_F(PluginsCommand, NamesPluginsWhoseOpsCannotBeListed) {
  copy_sample("strategy_throwing.so", folder_.path());
  const Result text = run({"plugins", "ops"});
  EXPECT_EQ(text.code, 0) << text.messages;
  EXPECT_THAT(text.out, HasSubstr("refused: strategy 'throwing': hook 'provide' threw an exception of type int\n"));
  EXPECT_EQ(json::parse(run({"plugins", "ops", "--json"}).out)["refused"][0],
            "strategy 'throwing': hook 'provide' threw an exception of type int");
  const Result shown = run({"plugins", "show", "throwing"});
  EXPECT_EQ(shown.code, 2);
  EXPECT_EQ(shown.messages, "error: " + (folder_.path() / "strategy_throwing.so").string() +
                                ": hook 'options' threw an exception of type int\n");
}

/// For example, the name of the op is mistyped.
TEST_F(PluginsCommand, NamesKernelsWhoseOpNoPluginBrings) {
  copy_sample("library_kernel_alone.so", folder_.path());
  EXPECT_THAT(run({"plugins", "ops"}).out,
              HasSubstr("\nrefused: library 'kernel_alone': has a kernel for op 'doubled', which no plugin brings\n"));
  copy_sample("library_sample_ops.so", folder_.path());
  EXPECT_THAT(run({"plugins", "ops"}).out, testing::Not(HasSubstr("refused")));
}

TEST(CommandLine, HelpAndVersionGoToTheResults) {
  EXPECT_THAT(
      run({"--version"}).out,
      AllOf(StartsWith("strata " STRATA_VERSION "\nABI " + std::to_string(kAbiNumber) + ", compiler "),
            ContainsRegex("(gcc|clang) [0-9]+"), EndsWith(", flavour '" + std::string(build_flavour()) + "'\n")));
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {"--help"}, {"help"}, {"plugins", "--help"}, {"plugins", "show", "--help"}, {"help", "plugins"}}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, HasSubstr("Usage: strata"));
    EXPECT_EQ(result.messages, "");
  }
  EXPECT_EQ(run({"help", "configuration", "--markdown"}).out, reference_markdown());
  EXPECT_EQ(run({"help", "configuration"}).out, reference_text());
}

TEST(CommandLine, RefusesWhatItDoesNotKnow) {
  const auto refused = [](const std::vector<const char*>& arguments, const std::string& message) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.messages, StartsWith("error: "));
    EXPECT_THAT(result.messages, HasSubstr(message));
    EXPECT_EQ(result.messages.find('\n'), result.messages.size() - 1) << result.messages;
  };
  refused({}, "strata --help");
  refused({"plugin", "list"}, "there is no command 'plugin'; did you mean 'plugins'?");
  refused({"frobnicate"}, "there is no command 'frobnicate'");
  refused({"plugins", "list", "--jsn"}, "--jsn");
  refused({"plugins"}, "strata plugins --help");
  refused({"--log-level", "loud", "plugins", "list"}, "loud");
  refused({"help", "confguration"}, "did you mean 'configuration'?");
  refused({"help", "plugins", "--markdown"}, "accepted: configuration");
}

/// Counts the pieces in which a stream without a buffer, such as std::cerr, is written.
class CountingBuffer : public std::streambuf {
 public:
  int pieces = 0;

 protected:
  std::streamsize xsputn(const char* /*text*/, std::streamsize count) override {
    ++pieces;
    return count;
  }
  int_type overflow(int_type letter) override {
    ++pieces;
    return traits_type::not_eof(letter);
  }
};

TEST(CommandLine, WritesAnErrorAtOnceSoThatLinesOfRanksDoNotMix) {
  for (const std::vector<const char*>& arguments :
       std::vector<std::vector<const char*>>{{"strata", "frobnicate"}, {"strata", "train", "/missing.toml"}}) {
    std::ostringstream out;
    CountingBuffer buffer;
    std::ostream messages(&buffer);
    EXPECT_EQ(run_command_line(static_cast<int>(arguments.size()), arguments.data(), out, messages), 2);
    EXPECT_EQ(buffer.pieces, 1) << arguments[1];
  }
}

TEST(ConfigurationArguments, TakeOneOverrideEach) {
  CLI::App app;
  ConfigurationArguments arguments;
  add_configuration(app, arguments);
  const std::vector<const char*> line = {"strata", "--set", "a.b=1", "c.toml", "--set", "d.e=[1, 2]", "--set=f.g=x,y"};
  app.parse(static_cast<int>(line.size()), line.data());
  EXPECT_EQ(arguments.file, "c.toml");
  EXPECT_EQ(arguments.overrides, (std::vector<std::string>{"a.b=1", "d.e=[1, 2]", "f.g=x,y"}));
}

/// The output of a shell command with the program.
std::string output_of(const std::string& before, const std::string& after) {
  FILE* pipe = ::popen((before + " '" + build_path("bin/strata") + "' " + after).c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  for (int letter = std::fgetc(pipe); letter != EOF; letter = std::fgetc(pipe)) text += static_cast<char>(letter);
  EXPECT_EQ(::pclose(pipe), 0) << text;
  return text;
}

/// libgomp prints the settings that it found when it was loaded.
TEST(Program, LetsThreadsOfOpenMpSleepSoonUnlessTheUserChoosesOtherwise) {
  if (::dlsym(RTLD_DEFAULT, "GOMP_parallel") == nullptr) GTEST_SKIP() << "this build is without libgomp";
  const std::string unset = "env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose ";
  const std::string version = "--version 2>&1";
  EXPECT_THAT(output_of(unset, version), HasSubstr("GOMP_SPINCOUNT = '1000'"));
  EXPECT_THAT(output_of(unset + "GOMP_SPINCOUNT=7", version), HasSubstr("GOMP_SPINCOUNT = '7'"));
  EXPECT_THAT(output_of(unset + "OMP_WAIT_POLICY=passive", version), HasSubstr("GOMP_SPINCOUNT = '0'"));
}

TEST(Program, FindsThePluginsOfItsOwnTree) {
  const json document = json::parse(output_of("", "plugins list --json"));
  const std::string own = std::filesystem::canonical(plugin_folder()).string();
  EXPECT_THAT(document["places"], Contains(json{{"path", own}, {"exists", true}}));
  EXPECT_FALSE(document["plugins"].empty());
  for (const json& plugin : document["plugins"]) EXPECT_THAT(plugin["path"].get<std::string>(), StartsWith(own));
}

}  // namespace
}  // namespace strata::host
