#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "data/batch_reader.hpp"
#include "data/data_source.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kSeq = 8;
constexpr std::int64_t kWidth = 3;
constexpr std::int64_t kGlobalBatch = 12;
constexpr std::int64_t kSamples = 50;
constexpr std::int32_t kTokens = 100000;

/// Samples whose values tell where they belong: token p of sample i is 10 · i + p, pixel p of sample i is i + p / 8.
class CountedDataset final : public Dataset {
 public:
  [[nodiscard]] DimSizes sizes() const override { return {{"seq", kSeq}, {"width", kWidth}, {"vocab", kTokens}}; }
  [[nodiscard]] std::int64_t samples(DataSplit /*split*/) const override { return kSamples; }
  void read(const SampleKey& key, std::span<void* const> destinations) const override {
    if (key.index == failing) throw RuntimeError("'disk': found smoke at byte 7; expected data");
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    ++reads;
    const auto index = static_cast<std::int32_t>(key.index);
    if (auto* tokens = static_cast<std::int32_t*>(destinations[0])) {
      std::iota(tokens, tokens + kSeq, key.index == outside ? kTokens - 3 : 10 * index);
    }
    if (auto* targets = static_cast<std::int32_t*>(destinations[1])) std::iota(targets, targets + kSeq, 10 * index + 1);
    if (auto* pixels = static_cast<float*>(destinations[3])) {
      for (std::int64_t p = 0; p < kSeq * kWidth; ++p) {
        pixels[p] = static_cast<float>(index) + static_cast<float>(p) / 8;
      }
    }
  }
  void read_common(std::span<void* const> destinations) const override {
    auto* positions = static_cast<std::int32_t*>(destinations[2]);
    std::iota(positions, positions + kSeq, 0);
  }
  [[nodiscard]] std::string fingerprint() const override { return "ff"; }
  [[nodiscard]] std::string description() const override { return "50 samples"; }

  std::int64_t failing = -1;
  std::int64_t outside = -1;
  std::chrono::milliseconds delay{0};
  mutable std::atomic<int> reads = 0;
};

std::vector<DatasetInput> inputs() {
  return {{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
          {.name = "targets", .dims = {"seq"}, .indexes = "vocab", .is_target = true},
          {.name = "positions", .dims = {"seq"}, .indexes = "seq", .per_sample = false},
          {.name = "pixels", .dims = {"seq", "width"}, .dtype = DType::f32}};
}

/// A random assignment of one dimension's indices to shards.
struct Dealing {
  int count;
  Distribution distribution = Distribution::block;
};

IndexMap shard(std::int64_t size, const Dealing& dealing, int index) {
  return {size, split_dimension(size, dealing.count, index, dealing.distribution)};
}

class BatchesTest : public ::testing::Test {
 protected:
  BatchesTest() {
    auto dataset = std::make_unique<CountedDataset>();
    dataset_ = dataset.get();
    source_ = std::make_unique<DataSource>(PluginOrigin{PluginKind::dataset, -1, "dataset 'counted'"}, inputs(),
                                           std::move(dataset));
  }

  /// Reads samples in order. Samples from `end` on only fill up the last batch.
  [[nodiscard]] BatchReader reader(std::int64_t end = kSamples,
                                   const std::vector<std::int64_t>& samples = all()) const {
    return {*source_,
            source_->sizes(),
            {{true, true, true, true}, samples},
            [end](std::uint64_t step, std::int64_t sample) -> std::optional<SampleKey> {
              const std::int64_t index = static_cast<std::int64_t>(step) * kGlobalBatch + sample;
              if (index >= end) return std::nullopt;
              return SampleKey{DataSplit::training, 0, 0, index};
            }};
  }
  static std::vector<std::int64_t> all() {
    std::vector<std::int64_t> samples(kGlobalBatch);
    std::iota(samples.begin(), samples.end(), 0);
    return samples;
  }

  static void read(const BatchReader& reader, std::uint64_t step, Batch& batch) {
    reader.reserve(batch);
    reader.read({step, 0, reader.batch_samples()}, batch);
  }

  template <class T>
  static std::vector<T> load(const BatchReader& reader, const Batch& batch, const std::string& name,
                             const std::vector<IndexMap>& dims, DType dtype) {
    std::int64_t size = 1;
    for (const IndexMap& dim : dims) size *= dim.local_size();
    std::vector<T> values(static_cast<std::size_t>(size), T{-7});
    reader.load(batch, {name, dims, dtype, reinterpret_cast<std::byte*>(values.data())});
    return values;
  }
  static std::vector<std::int32_t> integers(const BatchReader& reader, const Batch& batch, const std::string& name,
                                            const std::vector<IndexMap>& dims) {
    return load<std::int32_t>(reader, batch, name, dims, DType::i32);
  }

  /// Waits until a thread has read so many samples.
  void wait_for_reads(int reads) const {
    for (int i = 0; i < 20000 && dataset_->reads < reads; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  const IndexMap batch_ = IndexMap::whole(kGlobalBatch);
  const IndexMap sequence_ = IndexMap::whole(kSeq);
  CountedDataset* dataset_ = nullptr;
  std::unique_ptr<DataSource> source_;
};

TEST_F(BatchesTest, EveryLayoutSeesTheSameSamples) {
  const BatchReader reader = this->reader();
  Batch batch;
  read(reader, 1, batch);
  for (const Dealing& rows : {Dealing{1}, Dealing{2}, Dealing{3}, Dealing{12}}) {
    for (const Dealing& columns : {Dealing{1}, Dealing{4}, Dealing{2, Distribution::zigzag}}) {
      for (int row = 0; row < rows.count; ++row) {
        for (int column = 0; column < columns.count; ++column) {
          const std::vector<IndexMap> dims{shard(kGlobalBatch, rows, row), shard(kSeq, columns, column)};
          const auto part = integers(reader, batch, "tokens", dims);
          std::size_t at = 0;
          for (std::int64_t b = 0; b < dims[0].local_size(); ++b) {
            for (std::int64_t s = 0; s < dims[1].local_size(); ++s) {
              ASSERT_EQ(part[at++], 10 * (kGlobalBatch + dims[0].global_index(b)) + dims[1].global_index(s));
            }
          }
        }
      }
    }
  }
}

TEST_F(BatchesTest, FloatsHaveTheTypeOfTheRun) {
  const BatchReader reader = this->reader();
  Batch batch;
  read(reader, 0, batch);
  const std::vector<IndexMap> dims{shard(kGlobalBatch, {2}, 1), shard(kSeq, {2, Distribution::zigzag}, 0),
                                   IndexMap::whole(kWidth)};
  const auto narrow = load<float>(reader, batch, "pixels", dims, DType::f32);
  const auto wide = load<double>(reader, batch, "pixels", dims, DType::f64);
  std::size_t at = 0;
  for (std::int64_t b = 0; b < dims[0].local_size(); ++b) {
    for (std::int64_t s = 0; s < dims[1].local_size(); ++s) {
      for (std::int64_t w = 0; w < kWidth; ++w, ++at) {
        const auto expected = static_cast<double>(dims[0].global_index(b)) +
                              static_cast<double>(dims[1].global_index(s) * kWidth + w) / 8;
        ASSERT_EQ(narrow[at], expected);
        ASSERT_EQ(wide[at], expected);
      }
    }
  }
  EXPECT_THROW(integers(reader, batch, "pixels", dims), VerificationError);
}

TEST_F(BatchesTest, InputsThatAllSamplesShareHaveNoBatch) {
  const BatchReader reader = this->reader();
  EXPECT_THAT(integers(reader, {}, "positions", {shard(8, {2, Distribution::zigzag}, 0)}), ElementsAre(0, 1, 6, 7));
}

TEST_F(BatchesTest, ABatchIsFilledUpWithoutTargets) {
  const BatchReader reader = this->reader(kSamples);
  Batch batch;
  read(reader, 4, batch);  // samples 48 and 49, then none
  const IndexMap rest{kGlobalBatch, {{0, 2, 10}}};
  EXPECT_THAT(integers(reader, batch, "targets", {rest, sequence_}), Each(-1));
  EXPECT_THAT(integers(reader, batch, "tokens", {rest, sequence_}), Each(0));
  EXPECT_THAT(load<float>(reader, batch, "pixels", {rest, sequence_, IndexMap::whole(kWidth)}, DType::f32), Each(0));
  EXPECT_EQ(integers(reader, batch, "targets", {{kGlobalBatch, {{0, 1, 1}}}, sequence_}).front(), 491);
}

TEST_F(BatchesTest, OnlyTheSamplesOfThisProcessAreRead) {
  const BatchReader reader = this->reader(kSamples, {3, 4, 9});
  Batch batch;
  read(reader, 0, batch);
  EXPECT_EQ(dataset_->reads, 3);
  EXPECT_EQ(integers(reader, batch, "tokens", {{kGlobalBatch, {{0, 9, 1}}}, sequence_}).front(), 90);
  EXPECT_THROW(integers(reader, batch, "tokens", {{kGlobalBatch, {{0, 5, 1}}}, sequence_}), VerificationError);
  EXPECT_THROW(integers(reader, batch, "segments", {batch_, sequence_}), VerificationError);
}

TEST_F(BatchesTest, AnIntegerOutsideOfItsDimensionIsRefused) {
  dataset_->outside = 3;
  const BatchReader reader = this->reader();
  Batch batch;
  EXPECT_EQ(
      test::message_of<RuntimeError>([&] { read(reader, 0, batch); }),
      "dataset 'counted' gives input 'tokens' the value 100000; expected: at least 0 and below 100000, the size of "
      "dimension 'vocab'");
}

TEST_F(BatchesTest, AThreadReadsAheadAndNoFurtherThanItMay) {
  const BatchReader reader = this->reader(1 << 20);
  ReadAhead ahead(reader, {.first_step = 0, .ranks = 2, .batches = 3});
  wait_for_reads(3 * kGlobalBatch);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset_->reads, 3 * kGlobalBatch);
  EXPECT_EQ(ahead.wait(0).wait_seconds, 0) << "the batch was there";
  ahead.release(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset_->reads, 3 * kGlobalBatch) << "the other reader still needs the batch";
  ahead.release(0);
  wait_for_reads(4 * kGlobalBatch);
  EXPECT_EQ(dataset_->reads, 4 * kGlobalBatch);
}

TEST_F(BatchesTest, LittleMemoryMeansTwoBatches) {
  const BatchReader reader = this->reader(1 << 20);
  const ReadAhead ahead(reader, {.first_step = 0, .ranks = 1, .bytes = 1, .batches = 100});
  wait_for_reads(2 * kGlobalBatch);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(dataset_->reads, 2 * kGlobalBatch);
}

TEST_F(BatchesTest, WaitingForASlowDiskIsMeasured) {
  dataset_->delay = std::chrono::milliseconds(50);
  const BatchReader reader = this->reader();
  ReadAhead ahead(reader, {});
  const double waited = ahead.wait(0).wait_seconds;
  EXPECT_GT(waited, 0.02);
  EXPECT_LT(waited, 60);
}

/// By the number of threads that read ahead.
class ReadingThreadsTest : public BatchesTest, public ::testing::WithParamInterface<int> {};

TEST_P(ReadingThreadsTest, AllRanksGetTheBatchesOfTheirSteps) {
  const BatchReader reader = this->reader(1 << 20);
  constexpr std::uint64_t kFirst = 2;
  ReadAhead ahead(reader, {.first_step = kFirst, .ranks = 3, .threads = GetParam()});
  std::atomic<int> wrong = 0;
  const auto work = [&] {
    for (std::uint64_t step = kFirst; step < kFirst + 8; ++step) {
      if (ahead.wait(step).failure) ++wrong;
      std::array<std::int32_t, kGlobalBatch> tokens{};
      const std::vector<IndexMap> dims{batch_, {kSeq, {{0, 0, 1}}}};
      const std::string name = "tokens";
      ahead.load({name, dims, DType::i32, reinterpret_cast<std::byte*>(tokens.data())}, step);
      for (std::int32_t i = 0; i < kGlobalBatch; ++i) {
        if (tokens[static_cast<std::size_t>(i)] != 10 * (kGlobalBatch * static_cast<std::int32_t>(step) + i)) ++wrong;
      }
      ahead.release(step);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(ReadingThreadsTest, AFailureConcernsItsStepAndLaterOnes) {
  dataset_->failing = kGlobalBatch + 2;
  const BatchReader reader = this->reader();
  ReadAhead ahead(reader, {.first_step = 0, .ranks = 1, .threads = GetParam()});
  EXPECT_EQ(ahead.wait(0).failure, std::nullopt);
  ahead.release(0);
  for (const std::uint64_t step : {1, 2, 9}) {
    EXPECT_THAT(ahead.wait(step).failure.value_or(""), HasSubstr("'disk': found smoke at byte 7; expected data"));
  }
}

TEST_P(ReadingThreadsTest, AProcessWithoutSamplesWaitsForNone) {
  const BatchReader reader = this->reader(kSamples, {});
  ReadAhead ahead(reader, {.first_step = 0, .ranks = 1, .threads = GetParam()});
  for (const std::uint64_t step : {0, 1, 2, 3, 4, 5}) {
    EXPECT_EQ(ahead.wait(step).failure, std::nullopt);
    ahead.release(step);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ReadingThreadsTest, ::testing::Values(1, 2, 5, 30));

}  // namespace
}  // namespace strata::host
