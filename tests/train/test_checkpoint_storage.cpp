/// The transfer of tensors between the ranks' buffers and a checkpoint: which rank writes what, and in which types.

#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "checkpoint/checkpoint_plan.hpp"
#include "checkpoint/tensor_cover.hpp"
#include "checkpoint_fixture.hpp"
#include "random_storage.hpp"
#include "runtime/element.hpp"
#include "sanitized.hpp"
#include "strata/error.hpp"
#include "temporary_folder.hpp"

namespace strata::host {
namespace {

using test::FakeRanks;
using test::message_of;
using test::StoredTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointStorageTest : public ::testing::Test {
 protected:
  CheckpointReader written(FakeRanks& ranks) {
    store_.prepare(0);
    ranks.write(store_, {1, 0, 0, "", {}});
    return CheckpointReader(store_.path_of(1));
  }

  test::TemporaryFolder folder_;
  CheckpointStore store_{folder_.path() / "checkpoints", 0};
};

std::vector<TensorPart> parts_of(const CheckpointPlan& plan, const CheckpointTensor& tensor) {
  std::vector<TensorPart> parts;
  for (const CheckpointPiece& piece : plan.pieces(tensor)) parts.push_back(piece.part);
  return parts;
}

/// How often each element is in a part, by definition.
std::vector<int> element_counts(const Shape& shape, const std::vector<TensorPart>& parts) {
  std::vector<int> counts(static_cast<std::size_t>(element_count(shape)));
  for (const TensorPart& part : parts) {
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      std::int64_t rest = i;
      std::int64_t pitch = 1;
      std::int64_t global = 0;
      for (std::size_t dim = part.dims.size(); dim-- > 0;) {
        global += pitch * part.dims[dim].global_index(rest % part.dims[dim].local_size());
        pitch *= shape[dim];
        rest /= part.dims[dim].local_size();
      }
      ++counts[static_cast<std::size_t>(global)];
    }
  }
  return counts;
}

TEST_F(CheckpointStorageTest, EveryElementIsWrittenOnce) {
  std::mt19937 random(2);
  for (int round = 0; round < (testing::kSanitized ? 15 : 100); ++round) {
    const test::RandomStorage storage = test::random_storage(random);
    FakeRanks ranks(storage.mesh, storage.tensors);
    const CheckpointPlan plan(ranks.programs());
    for (const CheckpointTensor& tensor : plan.tensors()) {
      const std::vector<int> counts = element_counts(tensor.shape, parts_of(plan, tensor));
      ASSERT_THAT(counts, ::testing::Each(1)) << tensor.name << " in round " << round;
    }
  }
}

// Data parallelism: every rank has everything, and each writes its share.
TEST_F(CheckpointStorageTest, ReplicasShareTheWriting) {
  std::vector<StoredTensor> tensors{{"wte", {{"vocab", 500, {}, false}, {"x", 8, {}, false}}}};
  for (int i = 0; i < 12; ++i) tensors.push_back({"w" + std::to_string(i), {{"x", 100 + i, {}, false}}});
  for (const int replicas : {1, 2, 3, 4}) {
    const FakeRanks ranks(Mesh({{"dp", replicas}}), tensors);
    const CheckpointPlan plan(ranks.programs());
    const std::vector<std::int64_t> bytes = bytes_by_rank(plan, RankFile::changing);
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    EXPECT_EQ(static_cast<std::uint64_t>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})),
              checkpoint_bytes(plan));
    // The value and the state of the largest tensor, of 16000 bytes each, are on different ranks.
    if (replicas > 1) {
      EXPECT_LT(*most, 16000 + 12000);
    }
    if (replicas == 2) {
      EXPECT_LE(*most - *least, 444);
    }
    EXPECT_GT(*least, 0);
  }
}

// A rank's piece of a bucket may have a part of one tensor only.
TEST_F(CheckpointStorageTest, ReplicasShareTheWritingOfShardedBuckets) {
  std::vector<StoredTensor> tensors;
  for (const char* bucket : {"a", "b", "c", "d"}) {
    const auto add = [&](const char* name, std::int64_t elements, std::int64_t offset) {
      tensors.push_back({std::string(name) + bucket, {{"x", elements, {}, false}}, DType::f32, bucket});
      tensors.back().sharding = FlatSharding{{"dp"}, 1000, offset, true};
    };
    add("large.", 900, 0);
    add("small.", 100, 900);
  }
  const FakeRanks ranks(Mesh({{"replica", 2}, {"dp", 4}}), tensors);
  // Half of each piece, of 250 elements, of four values and four states.
  EXPECT_THAT(bytes_by_rank(CheckpointPlan(ranks.programs()), RankFile::changing), ::testing::Each(4000));
}

// Weights that two pipeline stages share, in different buckets; and states that only one of two ranks keeps.
TEST_F(CheckpointStorageTest, ProgramsMayStoreATensorInDifferentWays) {
  const Mesh mesh({{"pp", 2}, {"dp", 3}});
  const StoredTensor tied{"tied", {{"x", 40, {}, false}}, DType::f32, "bucket", FlatSharding{{"dp"}, 60, 7, false}};
  StoredTensor elsewhere = tied;
  elsewhere.sharding = FlatSharding{{"dp"}, 99, 50, true};
  StoredTensor kept{"kept", {{"x", 8, {}, false}}};
  StoredTensor unkept = kept;
  unkept.states.clear();
  const auto class_of = [](const Coordinates& at) { return at.at("pp"); };
  FakeRanks ranks(mesh, {{tied, unkept}, {elsewhere, kept}}, class_of);
  ranks.fill();
  const CheckpointPlan plan(ranks.programs());
  for (const CheckpointTensor& tensor : plan.tensors()) {
    ASSERT_THAT(element_counts(tensor.shape, parts_of(plan, tensor)), ::testing::Each(1)) << tensor.name;
  }
  const CheckpointReader reader = written(ranks);
  FakeRanks readers(mesh, {{elsewhere, kept}, {tied, unkept}}, class_of);
  readers.restore(reader);
  EXPECT_EQ(readers.count_wrong(), 0);
}

TEST_F(CheckpointStorageTest, PartsThatAreNoWholeAreRefusedByName) {
  const Mesh mesh({{"dp", 2}});
  const StoredTensor whole{"w", {{"x", 8, {}, false}}, DType::f32, "bucket", FlatSharding{{"dp"}, 8, 0, true}};
  const auto refusal = [&](FakeRanks& ranks) {
    return message_of<VerificationError>([&] { (void)CheckpointPlan(ranks.programs()); });
  };
  FakeRanks half(mesh, {{whole}, {}}, [](const Coordinates& at) { return at.at("dp"); });
  EXPECT_THAT(refusal(half), HasSubstr("'optimizer/first_moment/w' do not make it whole: they have 4 of 8 elements"));
  StoredTensor beyond = whole;
  beyond.sharding->offset = 1;
  FakeRanks outside(mesh, {beyond});
  EXPECT_THAT(refusal(outside), HasSubstr("'w' on rank 0: a flat bucket of 8 elements"));
}

TEST(PartCover, NamesWhatIsWrong) {
  const auto rows = [](std::int64_t begin, std::int64_t length) {
    return std::vector<IndexMap>{{8, {{0, begin, length}}}, IndexMap::whole(3)};
  };
  const auto fault = [](const std::vector<TensorPart>& parts) { return find_cover_fault({8, 3}, parts).value_or(""); };
  EXPECT_EQ(fault({{rows(0, 4), 5, 12}, TensorPart::block(rows(4, 4)), {rows(0, 4), 0, 5}}), "");
  EXPECT_THAT(fault({{rows(0, 8), 0, 11}, {rows(0, 8), 12, 24}}), HasSubstr("23 of 24 elements"));
  // The number of elements is that of the tensor, but one is there twice and another is missing.
  EXPECT_THAT(fault({{rows(0, 8), 0, 12}, {rows(0, 8), 11, 23}}), HasSubstr("element 11"));
  EXPECT_THAT(fault({TensorPart::block(rows(0, 4)), TensorPart::block(rows(3, 4))}), HasSubstr("overlap"));
}

/// Values that differ between f32 and narrower types.
double number(std::uint64_t index) { return 1 + static_cast<double>(index) / 4096; }

double rounded(DType dtype, double value) {
  std::uint64_t bits = 0;
  store_element(dtype, &bits, 0, value);
  return load_element(dtype, &bits, 0);
}

struct MasterCase {
  const char* what;
  DType written;
  bool written_master;
  DType read;
  bool read_master;
  /// The last type to which every value was rounded before it was read.
  DType exact;
};

// A 16-bit run keeps the f32 values among the optimizer's states. They have precedence over the 16-bit values.
TEST_F(CheckpointStorageTest, MasterCopiesComeAndGo) {
  const Mesh mesh({{"dp", 2}});
  const auto ranks_of = [&](DType dtype, bool master) {
    StoredTensor tensor{"w", {{"x", 37, {}, false}}, dtype, "bucket", FlatSharding{{"dp"}, 50, 9, master}, {}};
    if (master) tensor.states["master"] = DType::f32;
    return FakeRanks(mesh, {tensor});
  };
  const std::vector<MasterCase> cases{
      {"a master begins as the value", DType::f32, false, DType::bf16, true, DType::f32},
      {"a master is kept", DType::bf16, true, DType::bf16, true, DType::f32},
      {"a value comes from the master", DType::bf16, true, DType::f32, false, DType::f32},
      {"a value in another narrow type comes from the master", DType::bf16, true, DType::f16, true, DType::f32},
      {"without a master all there is is the value", DType::bf16, false, DType::f64, true, DType::bf16},
      {"wide to narrow", DType::f64, false, DType::f16, false, DType::f64},
  };
  for (const MasterCase& each : cases) {
    SCOPED_TRACE(each.what);
    FakeRanks writers = ranks_of(each.written, each.written_master);
    writers.for_each_element([](const std::string&, std::uint64_t index, void* element, DType dtype) {
      store_element(dtype, element, 0, number(index));
    });
    FakeRanks readers = ranks_of(each.read, each.read_master);
    readers.restore(written(writers));
    int read = 0;
    readers.for_each_element([&](const std::string&, std::uint64_t index, void* element, DType dtype) {
      ASSERT_EQ(load_element(dtype, element, 0), rounded(dtype, rounded(each.exact, number(index))));
      ++read;
    });
    // The whole value on both ranks, or pieces of value and master.
    EXPECT_EQ(read, 2 * 37);
  }
}

TEST_F(CheckpointStorageTest, IntegersAreNotConverted) {
  FakeRanks ranks(Mesh(), {{"count", {{"x", 2, {}, false}}, DType::i64}});
  ranks.fill();
  const CheckpointReader reader = written(ranks);
  std::array<float, 2> values{};
  EXPECT_THAT(message_of<RuntimeError>(
                  [&] { reader.read("count", TensorPart::block({IndexMap::whole(2)}), DType::f32, values.data()); }),
              HasSubstr("type i64; this run needs f32"));
}

TEST_F(CheckpointStorageTest, AnyPartCanBeRead) {
  FakeRanks ranks(Mesh({{"dp", 3}}),
                  {{"w", {{"x", 7, {}, false}}, DType::f32, "bucket", FlatSharding{{"dp"}, 12, 2, true}}});
  ranks.for_each_element([](const std::string&, std::uint64_t index, void* element, DType dtype) {
    store_element(dtype, element, 0, static_cast<double>(index));
  });
  const CheckpointReader reader = written(ranks);
  std::array<double, 4> values{};
  reader.read("w", {{IndexMap::whole(7)}, 1, 5}, DType::f64, values.data());
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace strata::host
