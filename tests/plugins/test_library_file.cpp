#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "loading/plugin_registry.hpp"
#include "refusal.hpp"
#include "sample_files.hpp"
#include "strata/internal/library_file.hpp"

namespace strata::host {
namespace {

using std::filesystem::path;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

/// Nobody has this number.
constexpr uid_t kStranger = 12345;

void make_stranger_own(const path& file) { ASSERT_EQ(::lchown(file.c_str(), kStranger, 0), 0); }
void set_group(const path& file, gid_t group) { ASSERT_EQ(::chown(file.c_str(), 0, group), 0); }
void set_mode(const path& file, mode_t mode) { ASSERT_EQ(::chmod(file.c_str(), mode), 0); }

/// What happens to the folders `root`/a/b, the library in the latter, or the link `root`/link to a/b.
struct Tampering {
  const char* name;
  std::function<void(const path& root)> act;
  /// Part of the reason for distrust. Empty if the library is trusted.
  const char* distrust;
  const char* warning = "";
  /// The folder, below `root`, through which the library is opened.
  const char* through = "a/b";
};

const std::vector<Tampering> kTamperings = {
    {"nothing", [](const path&) {}, ""},
    {"a folder further up is open to all", [](const path& root) { set_mode(root / "a", 0777); },
     "/a can be written by anyone; accepted: by its owner only (chmod go-w "},
    {"it is sticky, and the next folder is the user's", [](const path& root) { set_mode(root / "a", 01777); }, ""},
    {"it is sticky, and the next folder is a stranger's",
     [](const path& root) {
       set_mode(root / "a", 01777);
       make_stranger_own(root / "a/b");
     },
     "/a can be written by anyone"},
    {"the next folder of a sticky one is open to all",
     [](const path& root) {
       set_mode(root / "a", 01777);
       set_mode(root / "a/b", 0777);
     },
     "/a/b can be written by anyone"},
    {"the library is in a sticky folder", [](const path& root) { set_mode(root / "a/b", 01777); }, ""},
    {"a folder belongs to a stranger", [](const path& root) { make_stranger_own(root / "a"); },
     "/a belongs to user 12345; accepted: root"},
    {"the library belongs to a stranger", [](const path& root) { make_stranger_own(root / "a/b/library.so"); },
     "it belongs to user 12345; accepted: root"},
    {"a group may write a folder",
     [](const path& root) {
       set_group(root / "a", kStranger);
       set_mode(root / "a", 0775);
     },
     "/a can be written by its group 12345; accepted: by its owner only"},
    {"the user's private group may write a folder", [](const path& root) { set_mode(root / "a", 0775); }, "",
     "/a can be written by its group, which has no other member now; safer: chmod g-w "},
    {"the user's private group may write the library",
     [](const path& root) { set_mode(root / "a/b/library.so", 0664); }, "", "it can be written by its group"},
    {"a group may write the library",
     [](const path& root) {
       set_group(root / "a/b/library.so", kStranger);
       set_mode(root / "a/b/library.so", 0664);
     },
     "it can be written by its group 12345"},
    {"by a link", [](const path&) {}, "", "", "link"},
    {"by a link in a folder that is open to all",
     [](const path& root) {
       create_directory(root / "open");
       create_symlink("../a/b", root / "open/link");
       set_mode(root / "open", 0777);
     },
     "/open can be written by anyone", "", "open/link"},
    {"by a stranger's link", [](const path& root) { make_stranger_own(root / "link"); },
     "/link belongs to user 12345; accepted: root", "", "link"},
    {"by a link to a folder that is open to all", [](const path& root) { set_mode(root / "a", 0777); },
     "/a can be written by anyone", "", "link"},
    {"back through a folder that is open to all",
     [](const path& root) {
       create_directory(root / "open");
       set_mode(root / "open", 0777);
     },
     "", "", "open/../a/b"},
};

TEST(LibraryFile, IsTrustedIfOthersCanChangeNothingOnTheWay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  for (const Tampering& row : kTamperings) {
    SCOPED_TRACE(row.name);
    const TemporaryFolder folder;
    create_directories(folder.path() / "a/b");
    std::filesystem::create_symlink("a/b", folder.path() / "link");
    const path file = write_file(folder.path() / "a/b/library.so", "text");
    row.act(folder.path());
    const LibraryFile library(folder.path() / row.through / "library.so");
    EXPECT_EQ(library.path(), file);
    const std::string warning = library.warnings().empty() ? "" : library.warnings().front();
    EXPECT_THAT(library.distrust(),
                *row.distrust == '\0' ? testing::Matcher<std::string>(IsEmpty()) : HasSubstr(row.distrust));
    EXPECT_THAT(warning, *row.warning == '\0' ? testing::Matcher<std::string>(IsEmpty()) : HasSubstr(row.warning));
  }
}

TEST(LibraryFile, SaysWhereALinkBreaks) {
  const TemporaryFolder folder;
  const path link = folder.path() / "strategy_gone.so";
  std::filesystem::create_symlink("nowhere/gone.so", link);
  const PluginRegistry registry({folder.path()});
  ASSERT_EQ(registry.files().size(), 1U);
  EXPECT_EQ(registry.files()[0].path, link);
  EXPECT_EQ(registry.files()[0].refusal, "it cannot be read: " + link.string() + " is a link to nowhere/gone.so, and " +
                                             (folder.path() / "nowhere").string() + ": No such file or directory");

  std::filesystem::create_symlink("circle", folder.path() / "circle");
  EXPECT_THAT(refusal([&] { LibraryFile(folder.path() / "circle/library.so"); }),
              HasSubstr("it cannot be read: Too many levels of symbolic links"));
}

TEST(LibraryFile, IsNotLoadedAfterAChange) {
  const auto load_after = [](const std::function<void(const path&)>& change) {
    const TemporaryFolder folder;
    const path file = copy_sample("strategy_sample.so", folder.path());
    PluginRegistry registry({folder.path()});
    change(file);
    return refusal([&] { return &registry.load<StrategyFactory>("sample"); });
  };
  const auto changed = HasSubstr(
      "strategy_sample.so: the plugin cannot be loaded: it was changed or replaced after it had been inspected");
  EXPECT_EQ(load_after([](const path&) {}), "accepted");
  EXPECT_THAT(load_after([](const path& file) { write_file(file, read_sample("strategy_sample.so")); }), changed);
  EXPECT_THAT(load_after([](const path& file) {
                std::filesystem::rename(copy_sample("strategy_my_strategy.so", file.parent_path()), file);
              }),
              changed);
  EXPECT_THAT(load_after([](const path& file) { std::filesystem::remove(file); }), changed);
}

/// The loader returns what it has loaded under a name, even if the name is now that of another file.
TEST(LibraryFile, IsNotMistakenForAnOlderOneOfItsPath) {
  const TemporaryFolder folder;
  const path file = copy_sample("strategy_sample.so", folder.path());
  PluginRegistry first({folder.path()});
  EXPECT_EQ(first.load<StrategyFactory>("sample").options().options().size(), 2U);
  std::filesystem::remove(file);
  write_file(file, read_sample("strategy_my_strategy.so"));
  PluginRegistry second({folder.path()});
  EXPECT_THAT(refusal([&] { return &second.load<StrategyFactory>("my_strategy"); }),
              HasSubstr("another file was loaded from this path before; start again"));
}

/// $ORIGIN in a plugin's RUNPATH is the folder of its file, also if the plugin is found through a link.
TEST(LibraryFile, FindsItsPrivateLibraries) {
  const TemporaryFolder prefix;
  const TemporaryFolder place;
  const path folder = prefix.path() / "lib/strata/plugins";
  create_directories(folder);
  const path file = copy_sample("strategy_relative.so", folder);
  std::filesystem::create_symlink(file, place.path() / "strategy_relative.so");
  copy_sample("libstrata_sample_private.so", prefix.path() / "lib");
  PluginRegistry registry({place.path()});
  const auto& factory = registry.load<StrategyFactory>("dependent");
  Dl_info info{};
  ASSERT_NE(::dladdr(&typeid(factory), &info), 0);
  EXPECT_EQ(info.dli_fname, file) << "the name in backtraces and debuggers";
}

TEST(LoadLibrary, JudgesPathsAndSearchesForNames) {
  const TemporaryFolder folder;
  const path file = copy_sample("library_squared.so", folder.path());
  EXPECT_NE(load_library(file.string()), nullptr);
  set_mode(folder.path(), 0777);
  EXPECT_THAT(refusal([&] { load_library(file.string()); }),
              AllOf(HasSubstr(file.string() + ": the folder "), HasSubstr(" can be written by anyone")));
  EXPECT_THAT(refusal([] { load_library("libstrata_no_such_library.so.1"); }),
              HasSubstr("libstrata_no_such_library.so.1: cannot open shared object file"));
  EXPECT_NE(load_library("libc.so.6"), nullptr);
}

}  // namespace
}  // namespace strata::host
