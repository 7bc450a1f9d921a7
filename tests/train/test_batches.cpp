#include <gmock/gmock.h>

#include <algorithm>

#include "strata/error.hpp"
#include "temporary_folder.hpp"
#include "train/data/batches.hpp"

namespace strata::host {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::int64_t kContext = 8;
constexpr std::int64_t kGlobalBatch = 12;

/// A random assignment of one dimension's indices to shards.
struct Dealing {
  int count;
  Distribution distribution = Distribution::block;
};

std::vector<std::int32_t> load(InputSource& source, const std::string& name, std::uint64_t step,
                               const std::vector<IndexMap>& dims) {
  std::int64_t size = 1;
  for (const IndexMap& dim : dims) size *= dim.local_size();
  std::vector<std::int32_t> values(static_cast<std::size_t>(size), -7);
  source.load(name, step, dims, values.data());
  return values;
}

IndexMap shard(std::int64_t size, const Dealing& dealing, int index) {
  return {size, split_dimension(size, dealing.count, index, dealing.distribution)};
}

class BatchesTest : public ::testing::Test {
 protected:
  BatchesTest() {
    std::string text(4000, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>((i * i + i / 7) % 251);
    corpus_ = std::make_unique<Corpus>(
        DataSettings{folder_.file("text.txt", text), DataSettings::Format::text, Vocabulary::Kind::bytes, 0.1});
  }

  TrainingBatches training(std::int64_t global_batch = kGlobalBatch, DataPosition start = {}) {
    return {*corpus_, EpochSampler(3, corpus_->training().size, kContext), global_batch, start};
  }

  const IndexMap batch_ = IndexMap::whole(kGlobalBatch);
  const IndexMap sequence_ = IndexMap::whole(kContext);
  test::TemporaryFolder folder_;
  std::unique_ptr<Corpus> corpus_;
};

TEST_F(BatchesTest, TargetsAreTheNextTokens) {
  TrainingBatches batches = training();
  const auto tokens = load(batches, "tokens", 5, {batch_, sequence_});
  const auto targets = load(batches, "targets", 5, {batch_, sequence_});
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (i % kContext + 1 == kContext) continue;
    ASSERT_EQ(targets[i], tokens[i + 1]) << i;
  }
}

TEST_F(BatchesTest, EveryLayoutSeesTheSameSamples) {
  TrainingBatches batches = training();
  for (const std::string name : {"tokens", "targets"}) {
    const auto whole = load(batches, name, 7, {batch_, sequence_});
    for (const Dealing& rows : {Dealing{1}, Dealing{2}, Dealing{3}, Dealing{12}}) {
      for (const Dealing& columns : {Dealing{1}, Dealing{4}, Dealing{2, Distribution::zigzag}}) {
        for (int row = 0; row < rows.count; ++row) {
          for (int column = 0; column < columns.count; ++column) {
            const std::vector<IndexMap> dims{shard(kGlobalBatch, rows, row), shard(kContext, columns, column)};
            const auto part = load(batches, name, 7, dims);
            for (std::int64_t b = 0; b < dims[0].local_size(); ++b) {
              for (std::int64_t s = 0; s < dims[1].local_size(); ++s) {
                const auto global =
                    static_cast<std::size_t>(dims[0].global_index(b) * kContext + dims[1].global_index(s));
                ASSERT_EQ(part[static_cast<std::size_t>(b * dims[1].local_size() + s)], whole[global]);
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(BatchesTest, StepsTakeTheSamplesOfOneSequenceWhateverTheBatch) {
  TrainingBatches wide = training(12);
  TrainingBatches narrow = training(4);
  const auto whole = load(wide, "tokens", 1, {batch_, sequence_});
  std::vector<std::int32_t> parts;
  for (const std::uint64_t step : {3, 4, 5}) {
    const auto part = load(narrow, "tokens", step, {IndexMap::whole(4), sequence_});
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, whole);
}

TEST_F(BatchesTest, AResumedRunWithAnotherBatchGoesOnWhereTheDataStood) {
  TrainingBatches before = training(12);
  TrainingBatches after = training(4, {10, before.samples_before(10)});
  const auto expected = load(before, "tokens", 10, {IndexMap::whole(12), sequence_});
  const auto resumed = load(after, "tokens", 10, {IndexMap::whole(4), sequence_});
  EXPECT_TRUE(std::equal(resumed.begin(), resumed.end(), expected.begin()));
  EXPECT_EQ(after.samples_before(11), 124U);
}

TEST_F(BatchesTest, PositionsAreGlobal) {
  TrainingBatches batches = training();
  EXPECT_THAT(load(batches, "positions", 0, {shard(8, {2, Distribution::zigzag}, 0)}), ElementsAre(0, 1, 6, 7));
}

TEST_F(BatchesTest, UnknownInputIsRefused) {
  TrainingBatches batches = training();
  EXPECT_THROW(load(batches, "segments", 0, {batch_, sequence_}), VerificationError);
}

TEST_F(BatchesTest, TrainingNeverSeesValidation) {
  const EpochSampler sampler(3, corpus_->training().size, kContext);
  for (std::uint64_t sample = 0; sample < 5000; ++sample) {
    ASSERT_LE(sampler.window_begin(sample) + kContext + 1, corpus_->validation().begin);
  }
}

TEST_F(BatchesTest, ValidationIsInOrderAndEndsWithoutTargets) {
  ValidationBatches batches(*corpus_, kContext, kGlobalBatch);
  ASSERT_EQ(batches.batches(), 5);  // 400 tokens: 49 windows of 8 and a target, in batches of 12
  std::vector<std::int32_t> expected(kContext);
  for (std::int64_t window = 0; window < 49; ++window) {
    const IndexMap row{kGlobalBatch, {{0, window % kGlobalBatch, 1}}};
    corpus_->copy(3600 + window * kContext, kContext, expected.data());
    ASSERT_EQ(load(batches, "tokens", static_cast<std::uint64_t>(window / kGlobalBatch), {row, sequence_}), expected);
  }
  const IndexMap rest{kGlobalBatch, {{0, 1, 11}}};
  EXPECT_THAT(load(batches, "targets", 4, {rest, sequence_}), Each(-1));
}

}  // namespace
}  // namespace strata::host
