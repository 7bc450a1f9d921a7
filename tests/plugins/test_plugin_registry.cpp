#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loading/plugin_registry.hpp"
#include "refusal.hpp"
#include "sample_files.hpp"

namespace strata::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class PluginRegistryTest : public testing::Test {
 protected:
  std::string load_failure(const std::string& file, const std::string& name) {
    copy_sample(file, folder_.path());
    PluginRegistry registry({folder_.path()});
    return refusal([&] { return &registry.load<StrategyFactory>(name); });
  }

  [[nodiscard]] std::string path(const std::string& file) const { return (folder_.path() / file).string(); }

  TemporaryFolder folder_;
};

TEST_F(PluginRegistryTest, LoadsAPluginBuiltAgainstTheSdkAlone) {
  copy_sample("strategy_sample.so", folder_.path());
  PluginRegistry registry({folder_.path()});
  const auto& factory = registry.load<StrategyFactory>("sample");
  EXPECT_EQ(factory.options().options().size(), 2U);
  const std::unique_ptr<Strategy> strategy = factory.create(Options(factory.options(), {{"size", 4}}));
  ASSERT_EQ(strategy->axes().size(), 1U);
  EXPECT_EQ(strategy->axes()[0].size, 4);
  EXPECT_EQ(&registry.load<StrategyFactory>("sample"), &factory);
}

TEST_F(PluginRegistryTest, LoadsALibraryOfOps) {
  copy_sample("library_sample_ops.so", folder_.path());
  PluginRegistry registry({folder_.path()});
  EXPECT_EQ(registry.load<LibraryFactory>("sample_ops").options().options().size(), 1U);
  EXPECT_THAT(refusal([&] { return &registry.load<StrategyFactory>("sample_ops"); }),
              StartsWith("strategy plugin 'sample_ops' not found; 'sample_ops' is a library; "));
}

TEST_F(PluginRegistryTest, NamesPlacesAndTheNearestWhenNothingIsFound) {
  copy_sample("strategy_sample.so", folder_.path());
  PluginRegistry registry({folder_.path(), "/nowhere/plugins"});
  EXPECT_EQ(refusal([&] { return &registry.load<StrategyFactory>("sampel"); }),
            "strategy plugin 'sampel' not found; did you mean 'sample'?; accepted: sample; searched: " +
                folder_.path().string() + ", /nowhere/plugins (no such folder)");
  EXPECT_THAT(refusal([&] { return &registry.load<ModelFactory>("sample"); }),
              AllOf(StartsWith("model plugin 'sample' not found; 'sample' is a strategy; accepted: none; searched: ")));
}

TEST_F(PluginRegistryTest, NamesTheFileThatCannotBeUsed) {
  EXPECT_THAT(load_failure("strategy_without_entry.so", "without_entry"),
              AllOf(StartsWith(path("strategy_without_entry.so")), HasSubstr("no function strata_plugin_entry")));
  EXPECT_EQ(load_failure("strategy_null_factory.so", "null_factory"),
            path("strategy_null_factory.so") + ": strata_plugin_entry returned nothing");
  EXPECT_THAT(load_failure("strategy_failing.so", "failing"),
              StartsWith(path("strategy_failing.so") + ": the plugin failed to start: no such hardware"));
  EXPECT_THAT(
      load_failure("strategy_dependent.so", "dependent"),
      AllOf(StartsWith(path("strategy_dependent.so") + ": the plugin cannot be loaded: libstrata_sample_absent"),
            HasSubstr("No such file or directory")));
}

TEST_F(PluginRegistryTest, RefusesAFactoryOfAnotherKind) {
  copy_sample("model_mistaken.so", folder_.path());
  PluginRegistry registry({folder_.path()});
  EXPECT_EQ(
      refusal([&] { return &registry.load<ModelFactory>("mistaken"); }),
      path("model_mistaken.so") + ": the plugin says that it is a model, but its factory is that of another kind");
}

TEST_F(PluginRegistryTest, SaysWhyTheFileOfThatNameWasRefused) {
  std::string bytes = read_sample("strategy_sample.so");
  bytes[record_offset(bytes) + offsetof(PluginRecord, abi)] = 9;
  write_file(folder_.path() / "renamed.so", bytes);
  write_file(folder_.path() / "device_cpu.so", "no library at all");
  PluginRegistry registry({folder_.path()});
  EXPECT_THAT(refusal([&] { return &registry.load<StrategyFactory>("sample"); }),
              StartsWith(path("renamed.so") + ": refused: it is built for ABI 9; accepted: " +
                         std::to_string(kAbiNumber) + ", the ABI of this host"));
  EXPECT_THAT(refusal([&] { return &registry.load<DeviceFactory>("cpu"); }),
              StartsWith(path("device_cpu.so") + ": refused: it is no ELF file"));
  EXPECT_EQ(registry.files().size(), 2U);
}

TEST_F(PluginRegistryTest, NamesEveryRefusedFileOfThatName) {
  const TemporaryFolder second;
  write_file(folder_.path() / "strategy_sample.so", "no library at all");
  write_file(second.path() / "strategy_sample.so", "no library either");
  PluginRegistry registry({folder_.path(), second.path()});
  const std::string message = refusal([&] { return &registry.load<StrategyFactory>("sample"); });
  EXPECT_THAT(message, StartsWith(path("strategy_sample.so") + ": refused: "));
  EXPECT_THAT(message, HasSubstr("; " + (second.path() / "strategy_sample.so").string() + ": refused: "));
}

TEST_F(PluginRegistryTest, RefusesEverythingInAFolderThatOthersCanWrite) {
  copy_sample("strategy_sample.so", folder_.path());
  ::chmod(folder_.path().c_str(), 0777);
  PluginRegistry registry({folder_.path()});
  EXPECT_THAT(refusal([&] { return &registry.load<StrategyFactory>("sample"); }),
              AllOf(StartsWith(path("strategy_sample.so")), HasSubstr("can be written by anyone")));
}

TEST_F(PluginRegistryTest, DoesNotTakeTheNextPluginInSilence) {
  TemporaryFolder first;
  std::string bytes = read_sample("strategy_sample.so");
  bytes[record_offset(bytes) + offsetof(PluginRecord, abi)] = 9;
  write_file(first.path() / "strategy_sample.so", bytes);
  copy_sample("strategy_sample.so", folder_.path());
  PluginRegistry registry({first.path(), folder_.path()});
  EXPECT_THAT(refusal([&] { return &registry.load<StrategyFactory>("sample"); }),
              AllOf(StartsWith((first.path() / "strategy_sample.so").string() + ": refused: it is built for ABI 9"),
                    HasSubstr("; searched before " + path("strategy_sample.so"))));
  // A refused file that is searched later would not be taken anyway.
  PluginRegistry other({folder_.path(), first.path()});
  EXPECT_NE(&other.load<StrategyFactory>("sample"), nullptr);
}

TEST_F(PluginRegistryTest, TheFirstPlaceWins) {
  TemporaryFolder second;
  copy_sample("strategy_sample.so", folder_.path());
  copy_sample("strategy_sample.so", second.path());
  write_file(folder_.path() / "README", "no library: not looked at");
  const PluginRegistry registry({second.path(), folder_.path()});
  ASSERT_EQ(registry.files().size(), 2U);
  EXPECT_EQ(registry.files()[0].refusal, "");
  EXPECT_EQ(registry.files()[0].path.parent_path(), second.path());
  EXPECT_THAT(registry.files()[1].refusal, HasSubstr("it is hidden by " + second.path().string()));
}

}  // namespace
}  // namespace strata::host
