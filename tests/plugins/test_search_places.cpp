#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "loading/plugin_registry.hpp"
#include "sample_files.hpp"

namespace strata::host {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using Paths = std::vector<std::filesystem::path>;

TEST(PluginSearchPlaces, UsersFoldersComeBeforeTheProgramsAndThoseBeforeTheSystems) {
  const Paths places =
      plugin_search_places("/opt/strata/bin", {"/first::/second/../third:/first", "/data", "/home/me"});
  ASSERT_GE(places.size(), 6U);
  EXPECT_THAT(Paths(places.begin(), places.begin() + 4),
              ElementsAre("/first", "/third", "/data/strata/plugins", "/opt/strata/lib/strata/plugins"));
  EXPECT_THAT(places, AllOf(Contains("/usr/local/lib/strata/plugins"), Contains("/usr/lib/strata/plugins")));
  EXPECT_EQ(places.back(), "/usr/lib/strata/plugins");
}

TEST(PluginSearchPlaces, FindTheUsersDataAsTheXdgSpecificationSays) {
  const auto first = [](const PluginEnvironment& environment) {
    return plugin_search_places("/opt/strata/bin", environment).front();
  };
  EXPECT_EQ(first({"", "", "/home/me"}), "/home/me/.local/share/strata/plugins");
  EXPECT_EQ(first({"", "relative", "/home/me"}), "/home/me/.local/share/strata/plugins");
  EXPECT_EQ(first({"", "", ""}), "/opt/strata/lib/strata/plugins");
  EXPECT_EQ(first({"", "", "relative"}), "/opt/strata/lib/strata/plugins");
}

/// A link on the way to a plugin is judged. It must not get lost before.
TEST(PluginSearchPlaces, KeepLinks) {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  std::filesystem::create_directory(elsewhere.path() / "inner");
  std::filesystem::create_symlink(elsewhere.path() / "inner", folder.path() / "link");
  const std::string link = (folder.path() / "link").string();
  const Paths places = plugin_search_places(
      "/opt/bin", {link + ":" + (elsewhere.path() / "inner").string() + ":" + link + "/..", "", ""});
  EXPECT_EQ(places[0], link);
  EXPECT_EQ(places[1], link + "/..") << "the second is the first under another name, and the third is not their parent";
}

TEST(PluginSearchPlaces, IgnoreTheEnvironmentIfPrivilegesWereRaised) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a program that changes its user";
  const TemporaryFolder folder;
  const std::filesystem::path program = copy_sample("printed_environment", folder.path());
  const auto output = [&] {
    std::string text;
    const std::string command = "STRATA_PLUGIN_PATH=/a XDG_DATA_HOME=/b HOME=/c " + program.string();
    FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 256> line{};
    while (std::fgets(line.data(), line.size(), pipe) != nullptr) text += line.data();
    ::pclose(pipe);
    return text;
  };
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  EXPECT_EQ(output(), "[/a|/b|/c]\n");
  ASSERT_EQ(::chown(program.c_str(), 12345, 0), 0);
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  EXPECT_EQ(output(), "[||]\n");
}

}  // namespace
}  // namespace strata::host
