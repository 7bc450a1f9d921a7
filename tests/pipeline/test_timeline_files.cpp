#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "pipeline_strategy.hpp"
#include "reports/timeline.hpp"
#include "train/command_runner.hpp"

namespace strata::testing {
namespace {

using boost::property_tree::ptree;
using host::test::CommandResult;
using host::test::run_command;
using host::test::TemporaryFolder;
using nlohmann::json;
using ::testing::HasSubstr;

host::Timeline timeline_of(const PipelineCase& row) { return equal_timeline(*PipelinePlugin().create_case(row), row); }

/// Parses an SVG. Throws if the text is not well-formed XML.
ptree parse_svg(const std::string& text) {
  std::istringstream stream(text);
  ptree document;
  boost::property_tree::read_xml(stream, document);
  return document.get_child("svg");
}

double number(const ptree& element, const std::string& path) { return std::stod(element.get<std::string>(path)); }

TEST(TimelineSvg, HasABoxForEveryTaskInsideThePicture) {
  const PipelineCase row{"zbv", 3, 1, 6};
  const host::Timeline timeline = timeline_of(row);
  const ptree svg = parse_svg(timeline_svg(timeline, "a <run> & more"));
  EXPECT_EQ(svg.get<std::string>("<xmlattr>.xmlns"), "http://www.w3.org/2000/svg");
  EXPECT_EQ(svg.get<std::string>("title"), "a <run> & more");
  const auto width = number(svg, "<xmlattr>.width");
  const auto height = number(svg, "<xmlattr>.height");
  std::size_t boxes = 0;
  for (const auto& [name, group] : svg) {
    if (name != "g") continue;
    ++boxes;
    EXPECT_LE(number(group, "rect.<xmlattr>.x") + number(group, "rect.<xmlattr>.width"), width);
    EXPECT_LE(number(group, "rect.<xmlattr>.y") + number(group, "rect.<xmlattr>.height"), height);
    EXPECT_FALSE(group.get<std::string>("text").empty());
  }
  EXPECT_EQ(boxes, 3U * 2 * 6 * 3);
}

TEST(TimelineSvg, SaysWhatItShowsAndFitsDarkSurroundings) {
  const std::string one_chunk = timeline_svg(timeline_of({"1f1b", 4, 1, 8}), "run");
  EXPECT_THAT(one_chunk, HasSubstr("run: bubble 37.5% of the work"));
  EXPECT_THAT(one_chunk, HasSubstr("in flight, by stage: 4 3 2 1"));
  EXPECT_THAT(one_chunk, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(one_chunk, HasSubstr("B: backward"));
  EXPECT_THAT(one_chunk, Not(HasSubstr("W: weight")));
  EXPECT_THAT(one_chunk, Not(HasSubstr("later chunks")));
  EXPECT_THAT(timeline_svg(timeline_of({"zbv", 2, 1, 4}), "run"), HasSubstr("later chunks"));
}

TEST(TimelineSvg, StaysOfAReadableWidth) {
  const ptree svg = parse_svg(timeline_svg(timeline_of({"gpipe", 2, 1, 2000}), "long"));
  EXPECT_LT(number(svg, "<xmlattr>.width"), 8200);
}

TEST(TimelineTrace, HasAProcessForEveryStageAndEveryTaskInItsTime) {
  const PipelineCase row{"zb-h1", 3, 1, 5};
  const host::Timeline timeline = timeline_of(row);
  const json trace = json::parse(timeline_trace(timeline));
  std::map<int, std::vector<json>> by_stage;
  int names = 0;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") by_stage[event.at("pid")].push_back(event);
    if (event.at("ph") == "M" && event.at("name") == "process_name") ++names;
  }
  EXPECT_EQ(names, 3);
  ASSERT_EQ(by_stage.size(), 3U);
  for (const auto& [stage, events] : by_stage) {
    const auto& expected = timeline.stages[static_cast<std::size_t>(stage)].events;
    ASSERT_EQ(events.size(), expected.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      EXPECT_DOUBLE_EQ(events[i].at("ts"), expected[i].begin * 1000);
      EXPECT_DOUBLE_EQ(events[i].at("dur"), (expected[i].end - expected[i].begin) * 1000);
      EXPECT_EQ(events[i].at("args").at("micro_batch"), expected[i].task.micro_batch);
    }
  }
}

/// `strata explain` of a small run with `strategies`.
class ExplainTimeline : public ::testing::Test {
 protected:
  CommandResult explain(const std::string& strategies, std::vector<std::string> arguments) {
    const auto data = folder_.file("input.txt", std::string(2000, 'x') + "yz");
    const auto configuration = folder_.file("run.toml", R"([run]
name = "small"
[model]
plugin = "gpt2"
layers = 6
heads = 2
embed = 16
context = 8
[data]
path = ")" + data.string() + R"("
[batch]
global = 16
micro = 2
[device]
plugin = "reference"
[communicator]
plugin = "local"
)" + strategies);
    arguments.insert(arguments.begin(), {"explain", configuration.string()});
    return run_command(arguments);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(ExplainTimeline, DrawsAStackWithoutStagesAsOne) {
  const CommandResult result =
      explain("[[strategy]]\nplugin = \"ddp\"\nsize = 2\n", {"--timeline", path("a.svg"), "--trace", path("a.json")});
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(host::test::read_file(path("a.svg")), HasSubstr("small, 1 stage, 4 micro-batches"));
  EXPECT_EQ(json::parse(host::test::read_file(path("a.json"))).at("traceEvents").size(), 2U + 2 * 4);
}

TEST_F(ExplainTimeline, LeavesNothingWhereItCannotWrite) {
  const CommandResult result =
      explain("[[strategy]]\nplugin = \"ddp\"\nsize = 2\n", {"--timeline", path("absent/a.svg")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("absent/a.svg': there is no folder"));
  EXPECT_FALSE(std::filesystem::exists(path("absent")));
}

TEST_F(ExplainTimeline, ReportsStagesOfAPipeline) {
  const std::string table = "[[strategy]]\nplugin = \"pipeline\"\nsize = 4\nsplit = \"2,2,2,2\"\n";
  const CommandResult text = explain(table, {"--timeline", path("a.svg"), "--equal-chunks"});
  ASSERT_EQ(text.exit_code, 0) << text.messages;
  EXPECT_THAT(text.out, HasSubstr("pipeline along pp: 4 stages, 8 micro-batches"));
  EXPECT_THAT(text.out, HasSubstr("bubble 37.5% of the work if chunks took the same time"));
  EXPECT_THAT(host::test::read_file(path("a.svg")), HasSubstr("equal chunks: bubble 37.5% of the work"));
  const json pipeline = json::parse(explain(table, {"--json"}).out).at("pipeline");
  EXPECT_DOUBLE_EQ(pipeline.at("bubble_fraction").at("equal"), 0.375);
  double share = 0;
  for (int stage = 0; stage < 4; ++stage) {
    const json& row = pipeline.at("stages").at(static_cast<std::size_t>(stage));
    EXPECT_EQ(row.at("in_flight"), 4 - stage);
    EXPECT_EQ(row.at("chunks").at(0).at("blocks"), (std::vector<int>{2 * stage, 2 * stage + 1}));
    share += row.at("flop_share").get<double>();
  }
  EXPECT_NEAR(share, 1, 1e-12);
}

}  // namespace
}  // namespace strata::testing
