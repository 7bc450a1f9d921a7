#include <gmock/gmock.h>

#include "diagnosis/record_folder.hpp"
#include "diagnosis/verdict.hpp"
#include "mutator.hpp"
#include "strata/error.hpp"
#include "train/command_runner.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A rank's record, made by what the rank did.
struct Story {
  int rank = 0;
  FlightRecord record;

  explicit Story(int of, int ranks = 3) : rank(of) {
    record.rank = of;
    record.rank_count = ranks;
    record.activity = Activity::training;
    record.step = 7;
    record.run = 7;
    record.seconds = 62;
    computing("linear");
  }
  Story& computing(const std::string& op) {
    record.instruction = RecordedInstruction{"F0", "forward", 0, 3, "compute", op, "h.1." + op, 1};
    return *this;
  }
  Story& issues(const std::string& kind, const std::vector<int>& ranks, std::uint64_t id, std::int64_t bytes = 64) {
    RecordedCommunication each{.number = record.communications.size() + 1, .kind = kind, .name = "c", .ranks = ranks};
    for (const RecordedCommunication& other : record.communications) {
      if (other.ranks == ranks && other.kind == kind) each.ordinal = other.ordinal;
    }
    ++each.ordinal;
    each.run = record.run;
    each.id = id;
    each.bytes = bytes;
    record.communications.push_back(each);
    return *this;
  }
  Story& waits() {
    record.awaited = record.communications.size();
    return *this;
  }
  Story& ended() {
    record.communications.back().state = CommunicationState::complete;
    return *this;
  }
  Story& failed(const std::string& error, bool is_echo = false) {
    record.error = error;
    record.is_echo = is_echo;
    return *this;
  }
};

const std::vector<int> kAll{0, 1, 2};

/// What ranks did, and what the verdict is.
struct Case {
  const char* name;
  std::vector<Story> stories;
  std::vector<int> culprits;
  std::vector<int> circle;
  std::string text;
};

std::vector<Case> cases() {
  return {
      {"a rank computes while the others wait for it",
       {Story(0).issues("all_reduce", kAll, 1).ended().issues("all_reduce", kAll, 2).waits(),
        Story(1).issues("all_reduce", kAll, 1).ended().computing("gelu"),
        Story(2).issues("all_reduce", kAll, 1).ended().issues("all_reduce", kAll, 2).waits()},
       {1},
       {},
       "rank 1 has been computing gelu 'h.1.gelu' (step 7, forward, micro-batch 0) for 62 s\n  ranks 0, 2 wait for "
       "it\n"},
      {"a chain",
       {Story(0).issues("receive", {1}, 5).waits(), Story(1).issues("all_reduce", {1, 2}, 6).waits(), Story(2)},
       {2},
       {},
       "  ranks 0, 1 wait for it\n"},
      {"a message never sent",
       {Story(0).issues("receive", {1}, 5).waits(), Story(1).issues("send", {0}, 4), Story(2)},
       {1},
       {},
       "not sent by rank 1"},
      {"a message that was sent does not come",
       {Story(0).issues("receive", {1}, 5).waits(), Story(1).issues("send", {0}, 5), Story(2)},
       {},
       {},
       "receive 'c' (id 5) from rank 1 did not end on rank 0, although all have taken part"},
      {"a rank without a record",
       {Story(0).issues("all_reduce", kAll, 1).waits(), Story(2).issues("all_reduce", kAll, 1).waits()},
       {1},
       {},
       "rank 1 has left no record: its process was killed"},
      {"a circle",
       {Story(0).issues("receive", {1}, 5).waits(), Story(1).issues("receive", {2}, 6).waits(),
        Story(2).issues("receive", {0}, 7).waits()},
       {},
       {0, 1, 2},
       "a circle: rank 0 waits for rank 1 waits for rank 2 waits for rank 0"},
      {"ranks that issue different collectives",
       {Story(0).issues("all_reduce", kAll, 1).waits(), Story(1).issues("all_gather", kAll, 9, 32).waits(),
        Story(2).issues("all_reduce", kAll, 1).waits()},
       {},
       {},
       "collective 1 of the group of ranks 0-2 differs: rank 0 issued all_reduce 'c' (id 1, 64 bytes), rank 1 issued "
       "all_gather 'c' (id 9, 32 bytes)"},
      {"a rank failed, and the others because of it",
       {Story(0).issues("all_reduce", kAll, 1).waits().failed("rank 1 failed", true), Story(1).failed("no memory"),
        Story(2).issues("all_reduce", kAll, 1).waits().failed("rank 1 failed", true)},
       {1},
       {},
       "rank 1 failed: no memory"},
      {"all go on", {Story(0), Story(1), Story(2)}, {}, {}, "no rank did what the others did not"},
  };
}

TEST(Verdict, NamesTheRankThatDidWhatTheOthersDidNot) {
  for (const Case& row : cases()) {
    std::vector<FlightRecord> records;
    for (const Story& story : row.stories) records.push_back(story.record);
    const RankVerdict verdict = judge(records);
    std::vector<int> culprits;
    for (const Culprit& each : verdict.culprits) culprits.push_back(each.rank);
    EXPECT_EQ(culprits, row.culprits) << row.name;
    EXPECT_EQ(verdict.circle, row.circle) << row.name;
    EXPECT_THAT(verdict_text(verdict), HasSubstr(row.text)) << row.name;
  }
}

class DiagnoseCommand : public ::testing::Test {
 protected:
  DiagnoseCommand() {
    write(Story(0).issues("all_reduce", kAll, 1).waits());
    write(Story(1));
    write(Story(2).issues("all_reduce", kAll, 1).waits());
  }
  void write(const Story& story) const { RecordFolder(records()).write(story.record); }
  [[nodiscard]] std::filesystem::path records() const { return folder_.path() / kDiagnosisName; }
  [[nodiscard]] CommandResult diagnose(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"diagnose", folder_.path().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  }

  test::TemporaryFolder folder_;
};

TEST_F(DiagnoseCommand, TakesTheOutputFolderAndPrintsJsonToo) {
  const CommandResult text = diagnose();
  EXPECT_EQ(text.exit_code, 0) << text.messages;
  EXPECT_THAT(text.out, AllOf(HasSubstr("3 of 3 ranks"), HasSubstr("rank 1 has been computing")));
  const CommandResult json = diagnose({"--json"});
  EXPECT_EQ(json.exit_code, 0) << json.messages;
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["culprits"][0]["rank"], 1);
  EXPECT_EQ(document["culprits"][0]["blocks"], (std::vector<int>{0, 2}));
}

TEST_F(DiagnoseCommand, NamesEveryDamagedFileAndUsesTheOthers) {
  const std::string whole = test::read_file(records() / "rank-00001.json");
  std::string wrong = whole;
  wrong.replace(wrong.find("\"step\": 7"), 9, "\"step\": -7");
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", "is no regular file or is empty"},
      {whole.substr(0, whole.size() / 2), "is no JSON object, or was cut off"},
      {std::string(100000, '['), "nested deeper than 32 levels"},
      {"[]", "is no JSON object"},
      {wrong, "step: found -7; accepted: an integer from 0 to "},
      {test::read_file(records() / "rank-00002.json"), "is the record of rank 2"},
  };
  for (const auto& [text, message] : rows) {
    std::ofstream(records() / "rank-00001.json", std::ios::binary) << text;
    const CommandResult result = diagnose();
    EXPECT_EQ(result.exit_code, 1) << message;
    EXPECT_THAT(result.messages, HasSubstr(text.empty() ? "" : message));
    EXPECT_THAT(result.messages, HasSubstr("rank-00001.json"));
    EXPECT_THAT(result.out, HasSubstr("rank 1 has left no record")) << message;
  }
}

TEST(RecordText, AlteredRecordsAreJudgedOrRefused) {
  const FlightRecord waiting = Story(0).issues("all_reduce", kAll, 1).waits().record;
  const std::string text = to_json_text(Story(1).issues("receive", {0}, 5).waits().failed("no memory").record);
  testing::Mutator mutator(7);
  int judged = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string mutant = mutator.bytes(text);
    try {
      EXPECT_FALSE(verdict_text(judge({waiting, parse_record(mutant)})).empty());
      ++judged;
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "") << mutant;
    }
  }
  EXPECT_GT(judged, 10);
  EXPECT_LT(judged, 480);
}

TEST_F(DiagnoseCommand, RefusesWhatHasNoRecords) {
  EXPECT_EQ(run_command({"diagnose", (folder_.path() / "nowhere").string()}).exit_code, 2);
  std::filesystem::remove_all(records());
  const CommandResult result = diagnose();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("has no record"));
}

TEST_F(DiagnoseCommand, PrintsNoEscapeSequences) {
  write(Story(1).failed("\x1b[2J gone"));
  EXPECT_THAT(diagnose().out, AllOf(HasSubstr("?[2J gone"), Not(HasSubstr("\x1b"))));
}

TEST(RecordFolder, KeepsTheRecordsOfThreeEarlierStarts) {
  const test::TemporaryFolder output;
  const auto path = [&](const std::string& name) { return output.path() / (kDiagnosisName + name); };
  for (int start = 0; start < 5; ++start) {
    archive_records(output.path());
    EXPECT_FALSE(std::filesystem::exists(path("")));
    RecordFolder(path("")).write(Story(start, 9).record);
  }
  EXPECT_TRUE(std::filesystem::exists(path("") / "rank-00004.json"));
  EXPECT_TRUE(std::filesystem::exists(path(".1") / "rank-00003.json"));
  EXPECT_TRUE(std::filesystem::exists(path(".3") / "rank-00001.json"));
  EXPECT_FALSE(std::filesystem::exists(path(".4")));
}

TEST(RecordFolder, TellsOtherProcessesOfARequest) {
  const test::TemporaryFolder output;
  RecordFolder(output.path()).request("of an earlier start");
  RecordFolder first(output.path());
  RecordFolder second(output.path());
  EXPECT_FALSE(first.is_requested());
  first.request("rank 0 hangs");
  EXPECT_FALSE(first.is_requested()) << "its own";
  EXPECT_TRUE(second.is_requested());
  EXPECT_FALSE(second.is_requested()) << "answered";
}

TEST(RecordFolder, ReadsWhatAnotherRankDoesNow) {
  const test::TemporaryFolder output;
  const RecordFolder folder(output.path());
  folder.write(Story(0).record);
  const auto read = [&] { return folder.read_recent(1, 0, std::chrono::seconds(10)).has_value(); };
  EXPECT_FALSE(read()) << "there is none";
  folder.write(Story(1).record);
  EXPECT_TRUE(read());
  const std::filesystem::path path = output.path() / record_name(1);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - std::chrono::seconds(60));
  EXPECT_FALSE(read()) << "its process is stopped";
  static_cast<void>(output.file(record_name(1), "{"));
  EXPECT_FALSE(read()) << "it is damaged";
}

}  // namespace
}  // namespace strata::host
