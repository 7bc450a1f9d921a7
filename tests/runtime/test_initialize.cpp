#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "runtime/element.hpp"
#include "runtime/initialize.hpp"
#include "runtime/shards.hpp"
#include "runtime/toy_device.hpp"
#include "runtime/toy_program.hpp"
#include "strata/error.hpp"
#include "strata/internal/derived_initializer.hpp"
#include "strata/random.hpp"
#include "world.hpp"

namespace strata::host {
namespace {

using strata::testing::ToyProgram;

/// A program with one parameter "w" [6, 8], sharded over any axes, and a state.
Program program_of(const Mesh& mesh, const std::vector<AxisShard>& rows, const std::vector<AxisShard>& columns,
                   DType dtype = DType::f64) {
  ToyProgram toy{mesh};
  StoredParameter parameter;
  parameter.name = "w";
  parameter.initialization = Initialization::normal(0.5);
  parameter.dims = {{"row", 24, rows, false}, {"column", 32, columns, false}};
  const Shard shard(parameter.dims, mesh, 0);
  parameter.value = toy.buffer("w", dtype, {shard.local_elements()}, true);
  parameter.states["momentum"] = toy.buffer("w.momentum", dtype, {shard.local_elements()}, true);
  toy.program.parameters.push_back(parameter);
  return toy.program;
}

/// The logical tensor, from all ranks' parts.
std::vector<double> whole(const Program& program, std::uint64_t seed) {
  const StoredParameter& parameter = program.parameters.front();
  std::vector<double> values(24 * 32, NAN);
  for (int rank = 0; rank < program.mesh.rank_count(); ++rank) {
    const Shard shard = shard_of(program, parameter, parameter.value, rank);
    const std::vector<std::byte> local = initial_values(parameter, shard, DType::f64, seed);
    for_each_run(shard.part(), [&](std::int64_t from, std::int64_t to, std::int64_t length) {
      std::copy_n(reinterpret_cast<const double*>(local.data()) + from, length, values.begin() + to);
    });
  }
  return values;
}

/// The contents of buffers after a rank's memory was filled with other values and then initialised. Every rank runs
/// alone, because no instruction communicates.
std::vector<std::vector<double>> initialized(const Program& program, const std::vector<BufferId>& buffers,
                                             int rank = 0) {
  const MemoryPlan plan = plan_memory(program);
  local::LocalWorld world(1, 60);
  strata::testing::HostDevice device;
  const auto communicator = world.connect(0, device);
  Executor executor(program, plan, rank, 7, device, *communicator, std::make_shared<Arena>(device, plan.arena_bytes));
  std::vector<std::vector<double>> found;
  for (const Buffer& buffer : program.buffers) {
    const std::vector<std::byte> garbage(static_cast<std::size_t>(buffer.bytes()), std::byte{0xA5});
    executor.write(buffer.id, garbage.data());
  }
  initialize(executor, 7);
  for (const BufferId id : buffers) {
    const Buffer& buffer = program.buffer(id);
    std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.bytes()));
    executor.read(id, bytes.data());
    found.push_back(load_elements(buffer.dtype, bytes));
  }
  return found;
}

TEST(Initialize, DoesNotDependOnTheLayout) {
  const std::vector<double> expected = whole(program_of(Mesh(), {}, {}), 7);
  const Mesh mesh({{"a", 2}, {"b", 2}});
  EXPECT_EQ(whole(program_of(mesh, {}, {}), 7), expected);
  EXPECT_EQ(whole(program_of(mesh, {{"a"}}, {}), 7), expected);
  EXPECT_EQ(whole(program_of(mesh, {{"a"}}, {{"b", Distribution::zigzag}}), 7), expected);
  EXPECT_EQ(whole(program_of(mesh, {}, {{"a"}, {"b"}}), 7), expected);
}

TEST(Initialize, DependsOnSeedAndName) {
  Program program = program_of(Mesh(), {}, {});
  const std::vector<double> values = whole(program, 7);
  EXPECT_NE(whole(program, 8), values);
  program.parameters.front().name = "v";
  EXPECT_NE(whole(program, 7), values);
}

TEST(Initialize, HasTheAskedDistribution) {
  double mean = 0;
  double square = 0;
  const std::vector<double> values = whole(program_of(Mesh(), {}, {}), 7);
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) square += (value - mean) * (value - mean) / static_cast<double>(values.size());
  EXPECT_NEAR(mean, 0, 4 * 0.5 / std::sqrt(768));
  EXPECT_NEAR(std::sqrt(square), 0.5, 0.06);
  Program program = program_of(Mesh(), {}, {});
  program.parameters.front().initialization = Initialization::constant(1.5);
  EXPECT_EQ(whole(program, 7), std::vector<double>(24 * 32, 1.5));
}

/// An initialiser whose values depend on index, shape and key.
class ModelsOwn final : public Initializer {
 public:
  [[nodiscard]] double value(std::span<const std::int64_t> index, const Shape& shape,
                             std::uint64_t key) const override {
    return static_cast<double>(10'000 * index[0] + 100 * index[1] + shape[0] - shape[1]) +
           static_cast<double>(key % 64) / 64;
  }
};

TEST(Initialize, AModelsOwnInitializerSeesGlobalIndicesOnEveryLayout) {
  const Mesh mesh({{"a", 2}, {"b", 2}});
  const double fraction = static_cast<double>(random::stream_key(7, "init/w", 0) % 64) / 64;
  for (Program program : {program_of(Mesh(), {}, {}), program_of(mesh, {{"a"}}, {{"b", Distribution::zigzag}})}) {
    program.parameters.front().initialization = Initialization::custom(std::make_shared<ModelsOwn>());
    const std::vector<double> values = whole(program, 7);
    for (std::size_t row = 0; row < 24; ++row) {
      for (std::size_t column = 0; column < 32; ++column) {
        ASSERT_EQ(values[row * 32 + column],
                  10'000.0 * static_cast<double>(row) + 100.0 * static_cast<double>(column) - 8 + fraction);
      }
    }
  }
}

/// Returns its argument, or throws it.
template <class What>
class Faulty final : public Initializer {
 public:
  explicit Faulty(What what) : what_(std::move(what)) {}
  [[nodiscard]] double value(std::span<const std::int64_t> /*index*/, const Shape& /*shape*/,
                             std::uint64_t /*key*/) const override {
    if constexpr (std::is_same_v<What, double>) {
      return what_;
    } else {
      throw what_;
    }
  }

 private:
  What what_;
};

TEST(Initialize, NamesTheParameterWhoseInitializerFails) {
  const std::pair<std::shared_ptr<const Initializer>, const char*> rows[] = {
      {nullptr, "is missing (a null pointer)"},
      {std::make_shared<Faulty<double>>(HUGE_VAL), "gives inf"},
      {std::make_shared<Faulty<double>>(std::nan("")), "gives nan"},
      {std::make_shared<Faulty<int>>(3), "threw an exception of type int"},
      {std::make_shared<Faulty<std::domain_error>>(std::domain_error("odd")), "threw std::domain_error: odd"},
      {std::make_shared<Faulty<ConfigurationError>>(ConfigurationError("odd")), "threw odd"},
  };
  Program program = program_of(Mesh(), {}, {});
  for (const auto& [initializer, expected] : rows) {
    program.parameters.front().initialization = Initialization::custom(initializer);
    try {
      (void)whole(program, 7);
      FAIL() << expected;
    } catch (const RuntimeError& error) {
      EXPECT_EQ(error.what(), std::string("the initializer of parameter 'w' ") + expected);
    }
  }
}

/// Doubles the values of another tensor, and appends or alters some.
class Doubled final : public DerivedInitializer {
 public:
  explicit Doubled(Source source, std::size_t more = 0, float first = 0)
      : source_(std::move(source)), more_(more), first_(first) {}

  [[nodiscard]] const Source& source() const override { return source_; }
  [[nodiscard]] std::vector<float> derive(std::span<const float> source) const override {
    std::vector<float> values;
    for (const float each : source) values.push_back(2 * each);
    values.resize(values.size() + more_);
    if (first_ != 0) values.front() = first_;
    return values;
  }

 private:
  Source source_;
  std::size_t more_;
  float first_;
};

const DerivedInitializer::Source kSource{"w", {24, 32}, Initialization::normal(0.5)};

TEST(Initialize, DerivesValuesFromThoseThatTheReplacedParameterWouldHave) {
  const Mesh mesh({{"a", 2}, {"b", 2}});
  for (Program program : {program_of(Mesh(), {}, {}), program_of(mesh, {{"a"}}, {{"b", Distribution::zigzag}})}) {
    StoredParameter& parameter = program.parameters.front();
    parameter.initialization = kSource.initialization;
    const std::vector<double> source = whole(program, 7);
    parameter.name = "doubled";
    parameter.initialization = Initialization::custom(std::make_shared<Doubled>(kSource));
    const std::vector<double> derived = whole(program, 7);
    for (std::size_t i = 0; i < source.size(); ++i) ASSERT_EQ(derived[i], 2 * static_cast<float>(source[i])) << i;
  }
}

TEST(Initialize, NamesTheParameterWhoseValuesCannotBeDerived) {
  const std::pair<std::shared_ptr<const Initializer>, const char*> rows[] = {
      {std::make_shared<Doubled>(kSource, 1), "derives 769 values of 768"},
      {std::make_shared<Doubled>(kSource, 0, HUGE_VALF), "derives inf"}};
  Program program = program_of(Mesh(), {}, {});
  for (const auto& [initializer, expected] : rows) {
    program.parameters.front().initialization = Initialization::custom(initializer);
    try {
      (void)whole(program, 7);
      FAIL() << expected;
    } catch (const RuntimeError& error) {
      EXPECT_EQ(error.what(), std::string("the initializer of parameter 'w' ") + expected);
    }
  }
}

TEST(Initialize, ConvertsToTheBuffersType) {
  const std::vector<double> expected = whole(program_of(Mesh(), {}, {}), 7);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Program program = program_of(Mesh(), {}, {}, dtype);
    const StoredParameter& parameter = program.parameters.front();
    const std::vector<std::byte> values =
        initial_values(parameter, shard_of(program, parameter, parameter.value, 0), dtype, 7);
    for (std::int64_t i = 0; i < 24 * 32; ++i) {
      const double precision = dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
      const double value = expected[static_cast<std::size_t>(i)];
      // Below 2^-14, f16 represents multiples of 2^-24.
      ASSERT_NEAR(load_element(dtype, values.data(), i), value, std::fabs(value) * precision + 0x1p-25);
    }
  }
}

TEST(Initialize, SetsParametersAndClearsStates) {
  const Program program = program_of(Mesh(), {}, {});
  const StoredParameter& parameter = program.parameters.front();
  const BufferId momentum = parameter.states.at("momentum");
  EXPECT_EQ(initialized(program, {parameter.value, momentum}),
            (std::vector<std::vector<double>>{whole(program, 7), std::vector<double>(24 * 32, 0.0)}));
}

// The first rank has the beginning of "w", the second the middle, the third the end, and the fourth nothing.
TEST(Initialize, PiecesOfFlatBucketsAreFilledAndTheRestIsZero) {
  const std::vector<double> expected = whole(program_of(Mesh(), {}, {}), 7);
  const Mesh mesh({{"dp", 4}});
  constexpr std::int64_t kBucket = 2000;
  constexpr std::int64_t kOffset = 301;
  for (const bool values : {false, true}) {
    ToyProgram toy{mesh};
    StoredParameter parameter = program_of(Mesh(), {}, {}).parameters.front();
    parameter.sharding = FlatSharding{{"dp"}, kBucket, kOffset, values};
    const BufferId bucket = toy.buffer("bucket", DType::bf16, {values ? kBucket / 4 : kBucket}, true);
    parameter.value = values ? bucket : toy.view("w", bucket, kOffset, {24 * 32});
    const BufferId master = toy.buffer("bucket.master", DType::f32, {kBucket / 4}, true);
    const BufferId momentum = toy.buffer("bucket.momentum", DType::f32, {kBucket / 4}, true);
    parameter.states = {{"master", master}, {"momentum", momentum}};
    toy.program.parameters.push_back(parameter);
    for (int rank = 0; rank < 4; ++rank) {
      const auto found = initialized(toy.program, {master, momentum, bucket}, rank);
      for (std::int64_t i = 0; i < kBucket / 4; ++i) {
        const std::int64_t at = rank * kBucket / 4 + i - kOffset;
        const bool inside = at >= 0 && at < 24 * 32;
        const double value = inside ? expected[static_cast<std::size_t>(at)] : 0;
        const auto index = static_cast<std::size_t>(i);
        ASSERT_EQ(found[0][index], static_cast<float>(value));
        ASSERT_EQ(found[1][index], 0);
        std::uint16_t rounded = 0;
        store_element(DType::bf16, &rounded, 0, value);
        const auto place = static_cast<std::size_t>(values ? i : i + rank * kBucket / 4);
        ASSERT_EQ(found[2][place], load_element(DType::bf16, &rounded, 0));
      }
    }
  }
}

// The update rounds the f32 master copy, so initial values must not depend on whether a rank has one.
TEST(Initialize, A16BitValueIsTheRoundedMaster) {
  const Program program = program_of(Mesh(), {}, {}, DType::f16);
  const StoredParameter& parameter = program.parameters.front();
  const Shard shard = shard_of(program, parameter, parameter.value, 0);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const auto master = initial_values(parameter, shard, DType::f32, seed);
      const auto values = initial_values(parameter, shard, dtype, seed);
      for (std::int64_t i = 0; i < shard.local_elements(); ++i) {
        std::uint16_t rounded = 0;
        store_element(dtype, &rounded, 0, load_element(DType::f32, master.data(), i));
        ASSERT_EQ(load_element(dtype, values.data(), i), load_element(dtype, &rounded, 0));
      }
    }
  }
}

TEST(Initialize, ABufferOfAnotherSizeIsRefusedByName) {
  Program program = program_of(Mesh(), {}, {});
  program.buffers.front().shape = {24 * 31};
  try {
    (void)whole(program, 7);
    FAIL();
  } catch (const VerificationError& error) {
    EXPECT_STREQ(error.what(), "parameter 'w' on rank 0: buffer 'w' has 744 elements; its storage has 768");
  }
}

TEST(Elements, EveryF16AndBf16SurvivesTheWayThroughF64) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const std::uint16_t given = static_cast<std::uint16_t>(bits);
      const double value = load_element(dtype, &given, 0);
      std::uint16_t back = 0;
      store_element(dtype, &back, 0, value);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(load_element(dtype, &back, 0)));
      } else {
        ASSERT_EQ(back, given) << to_string(dtype) << " " << value;
      }
    }
  }
}

TEST(Elements, AreRoundedToTheNearestAndTiesToEven) {
  const auto stored = [](DType dtype, double value) {
    std::uint16_t bits = 0;
    store_element(dtype, &bits, 0, value);
    return load_element(dtype, &bits, 0);
  };
  EXPECT_EQ(stored(DType::f16, 1 + 0x1p-11), 1);
  EXPECT_EQ(stored(DType::f16, 1 + 0x1.8p-10), 1 + 0x1p-9);
  EXPECT_EQ(stored(DType::f16, -0x1.8p-24), -0x1p-23);
  EXPECT_EQ(stored(DType::f16, 65519), 65504);
  EXPECT_EQ(stored(DType::f16, 65520), HUGE_VAL);
  EXPECT_EQ(stored(DType::bf16, 1 + 0x1p-8), 1);
  EXPECT_EQ(stored(DType::bf16, 1 + 0x1.8p-7), 1 + 0x1p-6);
}

}  // namespace
}  // namespace strata::host
