#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "build_paths.hpp"
#include "stack_configuration.hpp"
#include "verify/verification.hpp"

namespace strata::testing {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A strategy that uses only the installed headers shards a dimension that the host does not know.
TEST(ThirdParty, StrategyTrainsAsOneRankBesideAnother) {
  host::PluginRegistry plugins({plugin_folder(), sample_plugin_folder()});
  const std::string tables =
      "[[strategy]]\nplugin = \"ddp\"\nsize = 2\n[[strategy]]\nplugin = \"my_strategy\"\nsize = 2\n";
  const host::Verification verification = host::verify_stack(small_gpt2(tables, 8, 2), plugins, {});
  EXPECT_EQ(verification.mesh.rank_count(), 4);
  EXPECT_LT(verification.difference.worst(), 1e-10) << verification.difference.worst_parameter;
}

TEST(ThirdParty, SourcesAreTheExamplesOfTheDocumentation) {
  const std::pair<std::string, std::string> examples[] = {{"strategies", "wide_layers"}, {"ops", "squared"}};
  for (const auto& [title, name] : examples) {
    const std::string page = read(source_path("docs/sdk/") + title + ".md");
    const std::string source = read(source_path("tests/plugins/samples/") + name + ".cpp");
    ASSERT_GT(source.size(), 500U) << name;
    EXPECT_NE(page.find(source), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace strata::testing
