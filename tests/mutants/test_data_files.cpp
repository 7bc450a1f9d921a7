#include <gtest/gtest.h>

#include <functional>

#include "datasets/image_files.hpp"
#include "datasets/open_dataset.hpp"
#include "datasets/token_files.hpp"
#include "odd_files.hpp"
#include "refusal.hpp"

namespace strata::testing {
namespace {

using Given = std::map<std::string, OptionValue>;

/// A dataset of valid files: names and bytes.
struct DataExample {
  const char* name;
  const char* plugin;
  std::vector<std::pair<std::string, std::string>> files;
  /// Options for the files in this folder.
  std::function<Given(const std::string& folder)> options;

  friend void PrintTo(const DataExample& example, std::ostream* out) { *out << example.name; }
};

std::vector<DataExample> data_examples() {
  const auto path = [](const std::string& name, const Given& more = {}) {
    return [=](const std::string& folder) {
      Given given{{"path", folder + "/" + name}, {"validation", 0.3}};
      given.insert(more.begin(), more.end());
      return given;
    };
  };
  std::vector<std::uint16_t> narrow;
  for (int i = 0; i < 60; ++i) narrow.push_back(static_cast<std::uint16_t>(i * 7 % 50));
  const std::vector<std::uint32_t> wide(narrow.begin(), narrow.end());
  IndexedFiles<std::uint16_t> indexed;
  for (int document = 0; document < 5; ++document) {
    indexed.add({{1, 2, 3, 4, 5}, std::vector<std::uint16_t>(static_cast<std::size_t>(document), 9)});
  }
  std::string text;
  for (int i = 0; i < 20; ++i) text += "straße " + std::to_string(i);
  const MnistFiles mnist = mnist_files(8, 3, 4);
  return {
      {"raw16", "tokens", {{"t", bytes_of(narrow)}}, path("t")},
      {"raw32", "tokens", {{"t", bytes_of(wide)}}, path("t", {{"type", std::string("uint32")}})},
      {"llmc16", "tokens", {{"t", llmc_file<std::uint16_t>(20240520, 1, 60, narrow)}}, path("t")},
      {"llmc32", "tokens", {{"t", llmc_file<std::uint32_t>(20240801, 7, 60, wide)}}, path("t")},
      {"indexed",
       "tokens",
       {{"t.idx", indexed.index()}, {"t.bin", bytes_of(indexed.tokens)}},
       path("t.idx", {{"documents", std::string("index")}, {"cross_document_targets", false}})},
      {"bytes", "text", {{"t", text}}, path("t")},
      {"characters", "text", {{"t", text}}, path("t", {{"tokenizer", std::string("chars")}})},
      {"mnist",
       "images",
       {{"i", mnist.images}, {"l", mnist.labels}},
       [](const std::string& folder) {
         const std::vector<std::string> files{folder + "/i", folder + "/l"};
         return Given{{"format", std::string("mnist")}, {"paths", files}, {"validation_paths", files}};
       }},
      {"cifar10",
       "images",
       {{"c", cifar10_file(0, 3)}},
       [](const std::string& folder) {
         const std::vector<std::string> files{folder + "/c"};
         return Given{{"paths", files}, {"validation_paths", files}, {"flip", true}, {"crop", std::int64_t{3}}};
       }},
  };
}

class DataMutants : public ::testing::TestWithParam<DataExample> {
 protected:
  static constexpr std::int64_t kVocabulary = 50;

  /// Opens the files and reads samples of both splits.
  void use() {
    const Options options = plugin_.options(GetParam().options(folder_.path().string()));
    const bool has_tokens = std::string(GetParam().plugin) != "images";
    const DimSizes fixed = has_tokens ? DimSizes{{"seq", 4}, {"vocab", kVocabulary}} : DimSizes{};
    const auto data = plugin_.factory().open(options, {fixed, true});
    const DimSizes sizes = data->sizes();
    const std::vector<DatasetInput> inputs = plugin_.factory().inputs(options);
    EXPECT_FALSE(data->fingerprint().empty());
    for (const DataSplit split : {DataSplit::training, DataSplit::validation}) {
      const std::int64_t samples = data->samples(split);
      ASSERT_GT(samples, 0);
      for (const std::int64_t index : {std::int64_t{0}, samples / 2, samples - 1}) {
        read(*data, inputs, sizes, {split, split == DataSplit::training ? 3U : 0U, 1, index});
      }
    }
  }

  DatasetPlugin plugin_{GetParam().plugin};
  host::test::TemporaryFolder folder_;

 private:
  static void read(const Dataset& data, const std::vector<DatasetInput>& inputs, const DimSizes& sizes,
                   const SampleKey& key) {
    std::vector<std::vector<std::int32_t>> values;
    std::vector<void*> destinations;
    for (const DatasetInput& input : inputs) {
      std::int64_t count = 1;
      for (const Dim& dim : input.dims) count *= sizes.at(dim);
      destinations.push_back(values.emplace_back(static_cast<std::size_t>(count), -7).data());
    }
    data.read(key, destinations);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].dtype != DType::i32 || !inputs[i].per_sample) continue;
      const std::int64_t least = inputs[i].is_target ? -1 : 0;
      const auto [low, high] = std::minmax_element(values[i].begin(), values[i].end());
      EXPECT_GE(*low, least) << inputs[i].name;
      EXPECT_LT(*high, sizes.contains(inputs[i].indexes) ? sizes.at(inputs[i].indexes) : kVocabulary) << inputs[i].name;
    }
  }
};

TEST_P(DataMutants, AreReadOrRefusedByName) {
  constexpr int kMutants = 350;
  const auto& files = GetParam().files;
  for (const auto& [name, bytes] : files) (void)folder_.file(name, bytes);
  ASSERT_FALSE(is_refused("", [&] { use(); }));
  Mutator mutator(3);
  int accepted = 0;
  for (int i = 0; i < kMutants; ++i) {
    const auto& [name, bytes] = files[static_cast<std::size_t>(i) % files.size()];
    // Half of the changes concern the header.
    const std::size_t part = i / 2 % 2 == 0 ? std::min<std::size_t>(bytes.size(), 40) : bytes.size();
    const std::string mutant = mutator.bytes(bytes.substr(0, part)) + bytes.substr(part);
    (void)folder_.file(name, mutant);
    accepted += is_refused(folder_.path().string(), [&] { use(); }) ? 0 : 1;
    (void)folder_.file(name, bytes);
    if (HasFailure()) FAIL() << "mutant " << i << " of " << name << ": " << ::testing::PrintToString(mutant);
  }
  EXPECT_LT(accepted, kMutants);
}

TEST_P(DataMutants, OddFilesAreNamed) {
  for (const std::string& odd : odd_files(folder_)) {
    for (const auto& [name, bytes] : GetParam().files) {
      for (const auto& [each, valid] : GetParam().files) (void)folder_.file(each, valid);
      std::filesystem::remove(folder_.path() / name);
      std::filesystem::create_symlink(odd, folder_.path() / name);
      EXPECT_TRUE(is_refused(folder_.path().string(), [&] { use(); })) << odd;
      std::filesystem::remove(folder_.path() / name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DataMutants, ::testing::ValuesIn(data_examples()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::testing
