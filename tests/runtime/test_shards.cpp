#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "communicator/host_device.hpp"
#include "runtime/prepared_program.hpp"
#include "runtime/shards.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kNobody = -1;

std::vector<std::int64_t> counting(std::int64_t size) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

/// Copies the rank's elements to their positions in the whole tensor.
void gather(const Shard& shard, const std::int64_t* local, std::vector<std::int64_t>& whole) {
  for_each_run(shard.part(), [&](std::int64_t from, std::int64_t to, std::int64_t length) {
    std::copy_n(local + from, length, whole.begin() + to);
  });
}

/// Copies the rank's elements from the whole tensor.
void scatter(const Shard& shard, const std::vector<std::int64_t>& whole, std::int64_t* local) {
  for_each_run(shard.part(), [&](std::int64_t to, std::int64_t from, std::int64_t length) {
    std::copy_n(whole.begin() + from, length, local + to);
  });
}

/// Three dims, each sharded over a random subset of the remaining axes.
std::vector<ShardedDim> random_dims(std::mt19937& random, const Mesh& mesh) {
  std::vector<ShardedDim> dims{{"a", 24, {}, false}, {"b", 48, {}, false}, {"c", 5, {}, false}};
  std::shuffle(dims.begin(), dims.end(), random);
  for (const MeshAxis& axis : mesh.axes()) {
    const std::size_t dim = random() % 4;
    if (dim >= dims.size() || dims[dim].dim == "c") continue;
    dims[dim].axes.push_back({axis.name, random() % 2 == 0 ? Distribution::block : Distribution::zigzag});
  }
  return dims;
}

TEST(Shards, GatherIsTheInverseOfScatter) {
  std::mt19937 random(1);
  const Mesh mesh({{"dp", 2}, {"cp", 2}, {"tp", 3}});
  for (int round = 0; round < 100; ++round) {
    const std::vector<ShardedDim> dims = random_dims(random, mesh);
    const std::vector<std::int64_t> whole = counting(24 * 48 * 5);
    std::vector<std::int64_t> gathered(whole.size(), kNobody);
    for (int rank = 0; rank < mesh.rank_count(); ++rank) {
      const Shard shard(dims, mesh, rank);
      ASSERT_EQ(element_count(shard.part().tensor_shape()), 24 * 48 * 5);
      std::vector<std::int64_t> local(static_cast<std::size_t>(shard.local_elements()), kNobody);
      scatter(shard, whole, local.data());
      // The definition: the global index of every local element.
      std::size_t at = 0;
      for (std::int64_t i = 0; i < shard.dims()[0].local_size(); ++i) {
        for (std::int64_t j = 0; j < shard.dims()[1].local_size(); ++j) {
          for (std::int64_t k = 0; k < shard.dims()[2].local_size(); ++k) {
            const std::int64_t row = shard.dims()[0].global_index(i) * dims[1].global_size;
            const std::int64_t index = (row + shard.dims()[1].global_index(j)) * dims[2].global_size;
            ASSERT_EQ(local[at++], index + shard.dims()[2].global_index(k));
          }
        }
      }
      gather(shard, local.data(), gathered);
    }
    ASSERT_EQ(gathered, whole);
  }
}

/// Some of the axes that no dim uses, in any order.
std::vector<Axis> random_axes(std::mt19937& random, const Mesh& mesh, const std::vector<ShardedDim>& dims) {
  const AxisSet used = shard_axes({dims, {}});
  std::vector<Axis> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    if (!used.contains(axis.name) && random() % 3 != 0) axes.push_back(axis.name);
  }
  std::shuffle(axes.begin(), axes.end(), random);
  return axes;
}

/// A rank's piece of a bucket with one block, by definition: builds the whole bucket first.
std::vector<std::int64_t> piece_of_bucket(const std::vector<std::int64_t>& block, const FlatSharding& bucket,
                                          const Mesh& mesh, int rank) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(bucket.elements), kNobody);
  std::copy(block.begin(), block.end(), all.begin() + bucket.offset);
  std::int64_t index = 0;
  for (const Axis& axis : bucket.axes) index = index * mesh.size(axis) + mesh.coordinates(rank).at(axis);
  const std::int64_t size = bucket.elements / mesh.size(bucket.axes);
  return {all.begin() + index * size, all.begin() + (index + 1) * size};
}

TEST(Shards, PiecesOfFlatBucketsHaveWhatTheirOffsetsSay) {
  std::mt19937 random(2);
  const Mesh mesh({{"dp", 2}, {"cp", 2}, {"tp", 3}});
  const std::vector<std::int64_t> whole = counting(24 * 48 * 5);
  for (int round = 0; round < 100; ++round) {
    TensorStorage storage{random_dims(random, mesh), {}};
    const std::int64_t block_elements = Shard(storage, mesh, 0).local_elements();
    FlatSharding& bucket = storage.bucket.emplace();
    bucket.axes = random_axes(random, mesh, storage.dims);
    bucket.offset = static_cast<std::int64_t>(random() % 4000);
    const std::int64_t count = mesh.size(bucket.axes);
    bucket.elements =
        (bucket.offset + block_elements + static_cast<std::int64_t>(random() % 4000)) / count * count + count;
    std::vector<std::int64_t> gathered(whole.size(), kNobody);
    for (int rank = 0; rank < mesh.rank_count(); ++rank) {
      std::vector<std::int64_t> block(static_cast<std::size_t>(block_elements));
      scatter(Shard(storage.dims, mesh, rank), whole, block.data());
      const Shard shard(storage, mesh, rank);
      const BufferSlice slice = shard.slice(0);
      std::vector<std::int64_t> piece(static_cast<std::size_t>(shard.buffer_elements()), kNobody);
      scatter(shard, whole, piece.data() + slice.begin);
      ASSERT_EQ(piece, piece_of_bucket(block, bucket, mesh, rank));
      gather(shard, piece.data() + slice.begin, gathered);
    }
    ASSERT_EQ(gathered, whole);
  }
}

TEST(Shards, ABucketThatCannotHoldItsTensorIsRefused) {
  const Mesh mesh({{"dp", 2}});
  const std::vector<ShardedDim> dims{{"a", 6, {}, false}};
  EXPECT_EQ(Shard({dims, FlatSharding{{"dp"}, 8, 2, false}}, mesh, 1).local_elements(), 4);
  EXPECT_THROW(Shard({dims, FlatSharding{{"dp"}, 8, 3, false}}, mesh, 1), VerificationError);
  EXPECT_THROW(Shard({dims, FlatSharding{{"dp"}, 9, 0, false}}, mesh, 1), VerificationError);
  EXPECT_THROW(Shard({dims, FlatSharding{{"dp"}, 8, -1, false}}, mesh, 1), VerificationError);
  EXPECT_THROW(Shard({dims, FlatSharding{{"ep"}, 8, 0, false}}, mesh, 1), VerificationError);
}

TEST(Shards, RunsAreAsLongAsTheyCanBe) {
  const Mesh mesh({{"tp", 2}});
  const auto runs = [&](const std::vector<ShardedDim>& dims) {
    std::vector<std::vector<std::int64_t>> found;
    for_each_run(Shard(dims, mesh, 1).part(), [&](std::int64_t local, std::int64_t global, std::int64_t length) {
      found.push_back({local, global, length});
    });
    return found;
  };
  using Runs = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(runs({}), (Runs{{0, 0, 1}}));
  EXPECT_EQ(runs({{"a", 4, {}, false}, {"b", 6, {}, false}}), (Runs{{0, 0, 24}}));
  EXPECT_EQ(runs({{"a", 4, {{"tp"}}, false}, {"b", 6, {}, false}}), (Runs{{0, 12, 12}}));
  EXPECT_EQ(runs({{"a", 2, {}, false}, {"b", 6, {{"tp"}}, false}}), (Runs{{0, 3, 3}, {3, 9, 3}}));
  EXPECT_EQ(runs({{"a", 8, {{"tp", Distribution::zigzag}}, false}, {"b", 2, {}, false}}), (Runs{{0, 4, 8}}));
}

/// Copies by definition: element by element, through the index maps.
TEST(CopyPlan, DealsPiecesAsTheIndexMapsSay) {
  strata::testing::HostDevice device;
  for (const Distribution distribution : {Distribution::block, Distribution::zigzag}) {
    for (const std::int64_t outer : {1, 3}) {
      for (const std::int64_t inner : {1, 5}) {
        const int count = 2;
        const std::int64_t size = 8;
        const std::vector<std::int64_t> whole = counting(outer * size * inner);
        std::vector<std::int64_t> pieces;
        for (int piece = 0; piece < count; ++piece) {
          const IndexMap map{size, split_dimension(size, count, piece, distribution)};
          std::vector<std::int64_t> expected;
          for (std::int64_t o = 0; o < outer; ++o) {
            for (std::int64_t i = 0; i < size / count; ++i) {
              for (std::int64_t k = 0; k < inner; ++k) {
                expected.push_back((o * size + map.global_index(i)) * inner + k);
              }
            }
          }
          pieces.insert(pieces.end(), expected.begin(), expected.end());
          Copy slice{Copy::Kind::slice, outer, size, inner, {"tp", distribution}};
          std::vector<std::int64_t> got(expected.size(), kNobody);
          launch_copy(device, plan_copy(slice, DType::i64, count, piece), reinterpret_cast<std::byte*>(got.data()),
                      reinterpret_cast<const std::byte*>(whole.data()));
          EXPECT_EQ(got, expected);
        }
        Copy pack{Copy::Kind::pack, outer, size, inner, {"tp", distribution}};
        std::vector<std::int64_t> packed(whole.size(), kNobody);
        launch_copy(device, plan_copy(pack, DType::i64, count, 1), reinterpret_cast<std::byte*>(packed.data()),
                    reinterpret_cast<const std::byte*>(whole.data()));
        EXPECT_EQ(packed, pieces);
        pack.kind = Copy::Kind::unpack;
        std::vector<std::int64_t> unpacked(whole.size(), kNobody);
        launch_copy(device, plan_copy(pack, DType::i64, count, 1), reinterpret_cast<std::byte*>(unpacked.data()),
                    reinterpret_cast<const std::byte*>(packed.data()));
        EXPECT_EQ(unpacked, whole);
      }
    }
  }
}

TEST(CopyPlan, JoinsRowsWithoutGaps) {
  const Copy slice{Copy::Kind::slice, 1, 8, 3, {"tp", Distribution::block}};
  EXPECT_EQ(plan_copy(slice, DType::f32, 2, 1), (std::vector<RowCopy>{{0, 48, 48, 96, 48, 1}}));
}

}  // namespace
}  // namespace strata::host
