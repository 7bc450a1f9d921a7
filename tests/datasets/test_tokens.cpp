#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <ostream>

#include "strata/error.hpp"
#include "token_files.hpp"

namespace strata::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Given = std::map<std::string, OptionValue>;

class TokensTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string file(const std::string& bytes, const std::string& name = "tokens.bin") const {
    return folder_.file(name, bytes).string();
  }
  static DatasetRequest request(std::int64_t context, std::int64_t vocab = 100000) {
    return {{{"seq", context}, {"vocab", vocab}}, false};
  }
  /// Opens files without a validation part.
  [[nodiscard]] std::unique_ptr<Dataset> open(Given given, std::int64_t context = 2) const {
    given.try_emplace("validation", 0.0);
    return plugin_.open(given, request(context));
  }
  [[nodiscard]] std::string refusal(Given given, std::int64_t context = 2, std::int64_t vocab = 100000) const {
    given.try_emplace("validation", 0.0);
    return plugin_.refusal(given, request(context, vocab));
  }
  /// The first window of a dataset of a single one.
  static std::vector<std::int32_t> tokens_of(const Dataset& data, std::int64_t context = 2) {
    return read_integers(data, {}, 0, context);
  }

  host::test::TemporaryFolder folder_;
  DatasetPlugin plugin_{"tokens"};
};

TEST_F(TokensTest, RawTokens) {
  const auto narrow = open({{"path", file(bytes_of<std::uint16_t>({0, 50256, 65535}))}});
  EXPECT_THAT(tokens_of(*narrow), ElementsAre(0, 50256));
  EXPECT_THAT(read_integers(*narrow, {}, 1, 2), ElementsAre(50256, 65535));
  EXPECT_EQ(narrow->sizes(), (DimSizes{{"seq", 2}})) << "only the model knows the size of the vocabulary";
  const auto wide = open({{"path", file(bytes_of<std::uint32_t>({7, 70000, 3}))}, {"type", std::string("uint32")}});
  EXPECT_THAT(tokens_of(*wide), ElementsAre(7, 70000));
}

TEST_F(TokensTest, TokensBehindTheHeadersOfLlmC) {
  EXPECT_THAT(tokens_of(*open({{"path", file(llmc_file<std::uint16_t>(20240520, 1, 3, {7, 50256, 1}))}})),
              ElementsAre(7, 50256));
  EXPECT_THAT(tokens_of(*open({{"path", file(llmc_file<std::uint32_t>(20240801, 7, 3, {7, 99999, 1}))}})),
              ElementsAre(7, 99999));
}

/// The end of a file that is longer than what is compared with the vocabulary before a run.
TEST_F(TokensTest, TheEndOfALongFileIsComparedWithTheVocabulary) {
  const std::string path = file(bytes_of<std::uint16_t>({1, 2, 3}));
  std::filesystem::resize_file(path, 2 * ((std::int64_t{64} << 20) + 1000000));  // the system keeps no zeros
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes_of<std::uint16_t>({70, 500});
  EXPECT_THAT(refusal({{"path", path}}, 2, 100), HasSubstr("found token 500 at position 68108865"));
  EXPECT_EQ(refusal({{"path", path}}, 2, 501), "accepted");
}

struct BadFile {
  const char* name;
  std::string bytes;
  std::string message;

  friend void PrintTo(const BadFile& file, std::ostream* out) { *out << file.name; }
};

class BadTokenFile : public TokensTest, public ::testing::WithParamInterface<BadFile> {};

TEST_P(BadTokenFile, IsRefusedByName) {
  const std::string path = file(GetParam().bytes);
  const std::string message = refusal({{"path", path}});
  EXPECT_THAT(message, HasSubstr("path: '" + path + "': "));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadTokenFile,
    ::testing::Values(
        BadFile{"empty", "", "the file is empty"},
        BadFile{"odd", "abc", "found 3 bytes; accepted: a whole number of tokens of 2 bytes"},
        BadFile{"header_only", bytes_of<std::int32_t>({20240520, 1, 5}),
                "found 12 bytes; accepted: llm.c's header (magic 20240520) of 1024 bytes and tokens"},
        BadFile{"too_few", llmc_file<std::uint16_t>(20240520, 1, 3, {7, 8}),
                "found 4 bytes after llm.c's header (magic 20240520), which announces 3 tokens of 2 bytes"},
        BadFile{"too_many", llmc_file<std::uint32_t>(20240801, 7, 1, {7, 8}), "which announces 1 tokens of 4 bytes"},
        BadFile{"none", llmc_file<std::uint16_t>(20240520, 1, 0, {}), "which announces 0 tokens"},
        BadFile{"negative", llmc_file<std::uint16_t>(20240520, 1, -2, {7}), "which announces -2 tokens"},
        BadFile{"version", llmc_file<std::uint16_t>(20240520, 2, 2, {7, 8}),
                "found version 2 in llm.c's header (magic 20240520); accepted: 1"},
        BadFile{"wide_version", llmc_file<std::uint32_t>(20240801, 1, 2, {7, 8}),
                "found version 1 in llm.c's header (magic 20240801); accepted: 7"},
        BadFile{"short", bytes_of<std::uint16_t>({1, 2}), "a context of 2 needs at least 3"},
        BadFile{"text", std::string(99, 'x') + "\n", "found text; accepted: raw tokens, "},
        BadFile{"text_of_odd_length", "\xC3\xA9t\xC3\xA9" + std::string(98, ' '), "found text; accepted: raw tokens, "},
        BadFile{"wide", bytes_of(std::vector<std::uint32_t>(64, 7)),
                "every second is 0, as in a file of 32-bit tokens; accepted: 16-bit tokens, or type = \"uint32\""},
        BadFile{"archive", "\x1f\x8b\x08" + std::string(7, '\0'), "found a gzip archive; accepted: raw tokens"},
        BadFile{"parquet", "PAR1" + std::string(8, '\0'), "found a Parquet file; accepted: raw tokens"}),
    [](const auto& info) { return info.param.name; });

TEST_F(TokensTest, PathsThatAreNoFilesAreNamed) {
  EXPECT_THAT(refusal({{"path", folder_.path().string()}}), HasSubstr("is not a regular file"));
  const std::string pipe = (folder_.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal({{"path", pipe}}), HasSubstr("pipe': is not a regular file"));
}

TEST_F(TokensTest, ATokenOutsideOfTheModelsVocabularyIsLocated) {
  const std::string path = file(llmc_file<std::uint16_t>(20240520, 1, 4, {1, 2, 300, 400}));
  EXPECT_EQ(refusal({{"path", path}}, 2, 401), "accepted");
  EXPECT_EQ(refusal({{"path", path}}, 2, 300),
            "path: '" + path +
                "': found token 300 at position 2, byte 1028; expected: tokens from 0 to 299, which the " +
                "model's vocabulary has");
}

/// Tokens that changed on the disk after the run began are noticed too.
TEST_F(TokensTest, ATokenThatChangesDuringTheRunIsLocated) {
  const std::string path = file(bytes_of(std::vector<std::uint16_t>(64, 5)));
  const auto data = open({{"path", path}}, 4);
  EXPECT_NO_THROW(tokens_of(*data, 4));
  static_cast<void>(file(bytes_of(std::vector<std::uint32_t>(32, 0xFFFFFFFFU)), "other"));
  const auto wide = plugin_.open({{"path", path}, {"validation", 0.0}}, request(4, 6));
  static_cast<void>(file(bytes_of(std::vector<std::uint16_t>(64, 9))));
  EXPECT_THAT(host::test::message_of<RuntimeError>([&] { static_cast<void>(tokens_of(*wide, 4)); }),
              HasSubstr("found token 9 at position "));
  const std::string large = (folder_.path() / "other").string();
  EXPECT_THAT(refusal({{"path", large}, {"type", std::string("uint32")}}), HasSubstr("found token 4294967295"));
}

TEST_F(TokensTest, FilesForTrainingAndForValidation) {
  const std::string training = file(bytes_of(std::vector<std::uint16_t>(100, 1)), "train.bin");
  const std::string validation = file(bytes_of(std::vector<std::uint16_t>(50, 2)), "val.bin");
  const Given given{{"path", training}, {"validation_paths", std::vector<std::string>{validation}}};
  const auto data = plugin_.open(given, {{{"seq", 9}, {"vocab", 3}}, true});
  EXPECT_EQ(data->samples(DataSplit::training), 100 / 9 - 1) << "`validation` takes nothing from them";
  EXPECT_EQ(data->samples(DataSplit::validation), 6) << "49 targets";
  for (std::int64_t i = 0; i < data->samples(DataSplit::training); ++i) {
    EXPECT_EQ(read_integers(*data, {DataSplit::training, 3, 1, i}, 0, 9), std::vector<std::int32_t>(9, 1));
  }
  EXPECT_EQ(read_integers(*data, {DataSplit::validation, 0, 1, 4}, 1, 9), std::vector<std::int32_t>(9, 2));
}

TEST_F(TokensTest, SeveralFilesWithWeights) {
  const std::vector<std::string> paths{file(bytes_of(std::vector<std::uint16_t>(1000, 1)), "one"),
                                       file(bytes_of(std::vector<std::uint16_t>(1000, 2)), "two")};
  const Given given{{"paths", paths}, {"weights", std::vector<double>{3, 1}}, {"validation", 0.0}};
  const auto data = plugin_.open(given, request(10));
  std::map<std::int32_t, std::int64_t> counts;
  for (std::int64_t i = 0; i < data->samples(DataSplit::training); ++i) {
    ++counts[read_integers(*data, {DataSplit::training, 0, 1, i}, 0, 10).front()];
  }
  EXPECT_NEAR(static_cast<double>(counts[1]), 3 * static_cast<double>(counts[2]), 4);
  EXPECT_THAT(data->description(), HasSubstr("2000 tokens of '" + paths[0] + "' and 1 more file(s)"));

  const auto refused = [&](const Given& more) {
    Given all = given;
    for (const auto& [name, value] : more) all[name] = value;
    return plugin_.refusal(all, request(10));
  };
  EXPECT_THAT(refused({{"weights", std::vector<double>{1}}}), HasSubstr("weights: found 1 weights; accepted: 2"));
  EXPECT_THAT(refused({{"weights", std::vector<double>{0, 0}}}), HasSubstr("not all of them 0"));
  EXPECT_THAT(refused({{"path", paths[0]}}), HasSubstr("path: found beside data.paths"));
  EXPECT_THAT(plugin_.refusal({}, request(10)), HasSubstr("path: missing; accepted: path, or else paths"));
}

// --- documents

/// Two documents of 5 and 4 tokens, of which the first has two sequences, an empty document, and one of 7.
template <class Token>
IndexedFiles<Token> some_documents() {
  IndexedFiles<Token> files;
  files.type = sizeof(Token) == 2 ? 8 : 4;
  files.add({{1, 2, 3}, {4, 5}});
  files.add({{11, 12, 13, 14}});
  files.add({});
  files.add({{21, 22, 23, 24, 25, 26, 27}});
  return files;
}

TEST_F(TokensTest, IndexedFilesOfMegatron) {
  const std::string narrow = some_documents<std::uint16_t>().write(folder_, "narrow");
  const std::string wide = some_documents<std::int32_t>().write(folder_, "wide");
  for (const std::string& path : {narrow, wide}) {
    // One window of 15 tokens, which begins at the first.
    const auto data = open({{"path", path}, {"documents", std::string("index")}}, 15);
    ASSERT_EQ(data->samples(DataSplit::training), 1);
    EXPECT_THAT(tokens_of(*data, 15), ElementsAre(1, 2, 3, 4, 5, 11, 12, 13, 14, 21, 22, 23, 24, 25, 26));
    EXPECT_THAT(read_integers(*data, {}, 3, 15), ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2));
    EXPECT_THAT(read_integers(*data, {}, 4, 15), ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5));
  }
}

TEST_F(TokensTest, DocumentsThatEndWithAToken) {
  const std::string path = file(bytes_of<std::uint16_t>({1, 2, 0, 3, 0, 0, 4, 5, 6}));
  const Given given{
      {"path", path}, {"documents", std::string("token")}, {"document_end", std::int64_t{0}}, {"validation", 0.0}};
  const auto data = plugin_.open(given, request(8));
  EXPECT_THAT(read_integers(*data, {}, 3, 8), ElementsAre(0, 0, 0, 1, 1, 2, 3, 3));
  EXPECT_THAT(read_integers(*data, {}, 4, 8), ElementsAre(0, 1, 2, 0, 1, 0, 0, 1));

  std::vector<std::string> names;
  for (const DatasetInput& input : plugin_.inputs(given)) names.push_back(input.name);
  EXPECT_THAT(names, ElementsAreArray({"tokens", "targets", "positions", "documents", "positions"}));
  EXPECT_EQ(plugin_.inputs({{"path", path}}).size(), 3U);

  EXPECT_THAT(refusal({{"path", path}, {"documents", std::string("token")}}), HasSubstr("document_end: found -1"));
  EXPECT_THAT(refusal({{"path", path}, {"documents", std::string("index")}}),
              HasSubstr("documents: found \"index\" with '" + path + "'; accepted: an .idx file"));
}

TEST_F(TokensTest, TargetsInsideOfDocuments) {
  const std::string path = file(bytes_of<std::uint16_t>({1, 2, 0, 3, 0, 0, 4, 5, 0, 6}));
  Given given{
      {"path", path}, {"documents", std::string("token")}, {"document_end", std::int64_t{0}}, {"validation", 0.0}};
  EXPECT_THAT(read_integers(*plugin_.open(given, request(9)), {}, 1, 9), ElementsAre(2, 0, 3, 0, 0, 4, 5, 0, 6));
  given["cross_document_targets"] = false;
  EXPECT_THAT(read_integers(*plugin_.open(given, request(9)), {}, 1, 9), ElementsAre(2, 0, -1, 0, -1, -1, 5, 0, -1));

  const auto indexed = open({{"path", some_documents<std::uint16_t>().write(folder_, "files")},
                             {"documents", std::string("index")},
                             {"cross_document_targets", false}},
                            15);
  EXPECT_THAT(read_integers(*indexed, {}, 1, 15), ElementsAre(2, 3, 4, 5, -1, 12, 13, 14, -1, 22, 23, 24, 25, 26, 27));

  EXPECT_THAT(refusal({{"path", path}, {"cross_document_targets", false}}),
              HasSubstr("cross_document_targets: found false with documents = \"none\"; accepted: true"));
}

/// The documents of every window agree with a plain count, wherever windows begin.
TEST_F(TokensTest, DocumentsOfAllWindows) {
  IndexedFiles<std::uint16_t> files;
  std::vector<std::int32_t> of_token;
  for (std::uint16_t document = 0; document < 40; ++document) {
    std::vector<std::uint16_t> tokens(static_cast<std::size_t>(document * 7 % 11));
    std::iota(tokens.begin(), tokens.end(), document);
    of_token.insert(of_token.end(), tokens.size(), document);
    files.add({tokens});
  }
  const auto data = open({{"path", files.write(folder_, "many")}, {"documents", std::string("index")}}, 13);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    for (std::int64_t i = 0; i < data->samples(DataSplit::training); ++i) {
      const SampleKey key{DataSplit::training, epoch, 1, i};
      const auto tokens = read_integers(*data, key, 0, 13);
      const auto documents = read_integers(*data, key, 3, 13);
      const auto positions = read_integers(*data, key, 4, 13);
      EXPECT_EQ(documents[0], 0);
      EXPECT_EQ(positions[0], 0);
      for (std::size_t t = 1; t < 13; ++t) {
        // Tokens count up within a document.
        const bool starts = positions[t] == 0;
        EXPECT_EQ(documents[t], documents[t - 1] + (starts ? 1 : 0));
        if (!starts) {
          EXPECT_EQ(tokens[t], tokens[t - 1] + 1);
          EXPECT_EQ(positions[t], positions[t - 1] + 1);
        }
      }
    }
  }
}

struct BadIndex {
  const char* name;
  void (*damage)(IndexedFiles<std::uint16_t>& files);
  std::string message;

  friend void PrintTo(const BadIndex& index, std::ostream* out) { *out << index.name; }
};

class BadIndexedFile : public TokensTest, public ::testing::WithParamInterface<BadIndex> {};

TEST_P(BadIndexedFile, IsRefusedByName) {
  IndexedFiles<std::uint16_t> files = some_documents<std::uint16_t>();
  GetParam().damage(files);
  const std::string message = refusal({{"path", files.write(folder_, "files")}});
  EXPECT_THAT(message, HasSubstr("path: '" + (folder_.path() / "files").string()));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadIndexedFile,
    ::testing::Values(
        BadIndex{"magic", [](auto& files) { files.magic[0] = 'X'; }, "found another beginning than \"MMIDIDX\""},
        BadIndex{"version", [](auto& files) { files.version = 2; }, "found version 2; accepted: version 1"},
        BadIndex{"type", [](auto& files) { files.type = 6; }, "found the type of tokens 6 at byte 17; accepted: 1 "},
        BadIndex{"pointer", [](auto& files) { files.pointers[2] = 4; },
                 "found sequence 2 at byte 4; accepted: sequences one after another, so byte 10"},
        BadIndex{"length", [](auto& files) { files.lengths[1] = -1; }, "found -1 tokens in sequence 1"},
        BadIndex{"document", [](auto& files) { files.documents[2] = 9; }, "a document that begins with sequence 9"},
        BadIndex{"no_documents", [](auto& files) { files.documents.clear(); }, "found 0 entries of the document table"},
        BadIndex{"bin", [](auto& files) { files.tokens.pop_back(); },
                 "files.bin': found 30 bytes; accepted: 32, as '"}),
    [](const auto& info) { return info.param.name; });

TEST_F(TokensTest, ATruncatedIndexIsRefused) {
  const std::string index = some_documents<std::uint16_t>().index();
  static_cast<void>(some_documents<std::uint16_t>().write(folder_, "files"));
  for (std::size_t bytes = 1; bytes < index.size(); ++bytes) {
    const std::string path = folder_.file("files.idx", index.substr(0, bytes)).string();
    EXPECT_THAT(refusal({{"path", path}}), HasSubstr("files.idx': found")) << bytes;
  }
  std::filesystem::remove(folder_.path() / "files.bin");
  const std::string path = folder_.file("files.idx", index).string();
  EXPECT_THAT(refusal({{"path", path}}), HasSubstr("files.bin': cannot be opened: No such file"));
}

}  // namespace
}  // namespace strata::testing
