// Philox itself, and the masks that devices draw from it.

#include <gtest/gtest.h>

#include "ops/comparison.hpp"
#include "ops/devices.hpp"
#include "ops/op_case.hpp"
#include "strata/random.hpp"

namespace strata::testing {
namespace {

using Words = std::array<std::uint32_t, 4>;

struct KnownAnswer {
  Words counter;
  std::array<std::uint32_t, 2> key;
  Words words;
};

// Random123's kat_vectors, lines "philox4x32 10".
const KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, GivesThePublishedWords) {
  for (const KnownAnswer& each : kKnownAnswers) EXPECT_EQ(random::philox4x32(each.counter, each.key), each.words);
}

TEST(Philox, TakesKeyAndBlockWithTheLowWordFirst) {
  const Words expected = random::philox4x32(Words{0x55667788, 0x11223344, 0, 0}, {0xddeeff00, 0x99aabbcc});
  EXPECT_EQ(random::philox4x32(0x99aabbccddeeff00U, 0x1122334455667788U), expected);
  EXPECT_EQ(random::word(7, 4 * 9 + 2), random::philox4x32(7, 9)[2]);
}

struct DeviceUnderTest {
  std::string plugin;
  std::map<std::string, OptionValue> options;
};

std::vector<DeviceUnderTest> devices_under_test() {
  std::vector<DeviceUnderTest> devices = {
      {"reference", {}},
      {"cpu", {}},
      {"cpu", {{"instructions", std::string("portable")}, {"threads", std::int64_t{3}}}}};
  for (const std::string& name : accelerators()) devices.push_back({name, {}});
  return devices;
}

/// Runs dropout on ones and returns which are kept.
std::vector<bool> kept_of_dropout(Device& device, const OpInstance& instance, const StepContext& context) {
  const std::int64_t count = element_count(instance.results[0].shape);
  const std::vector<float> ones(static_cast<std::size_t>(count), 1.0F);
  std::vector<float> result(static_cast<std::size_t>(count));
  const std::int64_t bytes = count * std::int64_t{sizeof(float)};
  const auto x = device.allocate(bytes);
  const auto y = device.allocate(bytes);
  const auto workspace = device.allocate(device.workspace_bytes(instance));
  device.copy_from_host(StreamKind::compute, x.get(), ones.data(), bytes);
  const void* const operands[] = {x.get()};
  void* const results[] = {y.get()};
  device.prepare(instance)->launch({operands, results, workspace.get(), context});
  device.copy_to_host(StreamKind::compute, result.data(), y.get(), bytes);
  std::vector<bool> kept;
  for (const float value : result) kept.push_back(value != 0.0F);
  return kept;
}

OpInstance dropout_instance(double probability, const std::vector<std::pair<Dim, IndexMap>>& dims) {
  OpInstance instance;
  instance.op = "dropout";
  instance.name = "block.3.dropout";
  instance.attributes = {{"p", probability}};
  instance.seed = 42;
  OperandDescription tensor;
  for (const auto& [dim, map] : dims) {
    tensor.dims.push_back(dim);
    tensor.shape.push_back(map.local_size());
    instance.index_maps[dim] = map;
  }
  instance.operands = {tensor};
  instance.results = {tensor};
  instance.micro_batch_dim = "batch";
  return instance;
}

TEST(Dropout, KeepsWhatTheDefinitionKeeps) {
  const IndexMap batch = shard(6, 2, 1);
  const IndexMap seq = shard(40, 2, 1, Distribution::zigzag);
  const IndexMap embed = shard(106, 2, 0);
  const OpInstance instance = dropout_instance(0.37, {{"batch", batch}, {"seq", seq}, {"embed", embed}});
  const StepContext context{.step = 1000000007, .micro_batch = 5, .learning_rate = 0.0};
  const std::uint64_t key = random::stream_key(42, "block.3.dropout", context.step);
  std::vector<bool> expected;
  for (std::int64_t b = 0; b < batch.local_size(); ++b) {
    for (std::int64_t s = 0; s < seq.local_size(); ++s) {
      for (std::int64_t e = 0; e < embed.local_size(); ++e) {
        const std::int64_t sample = 5 * 6 + batch.global_index(b);
        const std::int64_t index = (sample * 40 + seq.global_index(s)) * 106 + embed.global_index(e);
        expected.push_back(random::word(key, static_cast<std::uint64_t>(index)) >= random::drop_threshold(0.37));
      }
    }
  }
  for (const DeviceUnderTest& each : devices_under_test()) {
    const auto device = make_device(each.plugin, each.options);
    EXPECT_EQ(kept_of_dropout(*device, instance, context), expected) << device->description();
  }
}

TEST(Dropout, ReachesElementsBeyond32Bits) {
  // Element 2^35 + 5 and its neighbours.
  const IndexMap flat{std::int64_t{1} << 36, {{0, (std::int64_t{1} << 35) + 5, 1000}}};
  const OpInstance instance = dropout_instance(0.5, {{"flat", flat}});
  const std::uint64_t key = random::stream_key(42, "block.3.dropout", 0);
  std::vector<bool> expected;
  for (std::int64_t i = 0; i < 1000; ++i) {
    expected.push_back(random::word(key, static_cast<std::uint64_t>(flat.global_index(i))) >= 0x80000000U);
  }
  for (const DeviceUnderTest& each : devices_under_test()) {
    const auto device = make_device(each.plugin, each.options);
    EXPECT_EQ(kept_of_dropout(*device, instance, {}), expected) << device->description();
  }
}

/// The smallest difference of probabilities changes the mask. A probability rounded to f32 would not.
TEST(Dropout, HasAnExactThreshold) {
  const std::uint64_t key = random::stream_key(42, "block.3.dropout", 0);
  for (std::int64_t i = 0; i < 16; ++i) {
    const std::uint32_t word = random::word(key, static_cast<std::uint64_t>(i));
    for (const bool keep : {true, false}) {
      const double probability = (static_cast<double>(word) + (keep ? 0.5 : 1.5)) / 4294967296.0;
      const OpInstance instance = dropout_instance(probability, {{"flat", {64, {{0, i, 1}}}}});
      for (const DeviceUnderTest& each : devices_under_test()) {
        const auto device = make_device(each.plugin, each.options);
        EXPECT_EQ(kept_of_dropout(*device, instance, {}), std::vector<bool>{keep}) << device->description();
      }
    }
  }
}

/// Attention over equal scores with the identity as values. The output is the dropped probabilities.
std::vector<bool> kept_of_attention(Device& device, const OpInstance& instance, const StepContext& context) {
  const Shape& q = instance.operands[0].shape;
  const Shape& k = instance.operands[1].shape;
  std::vector<float> value(static_cast<std::size_t>(element_count(k)));
  for (std::int64_t row = 0; row < element_count(k) / k.back(); ++row) {
    const std::int64_t position = row / (element_count(k) / (k[0] * k[1] * k.back())) % k[1];
    value[static_cast<std::size_t>(row * k.back() + position)] = 1.0F;
  }
  const auto query_memory = device.allocate(element_count(q) * 4);
  const auto key_memory = device.allocate(element_count(k) * 4);
  const auto value_memory = device.allocate(element_count(k) * 4);
  const auto output_memory = device.allocate(element_count(q) * 4);
  const auto row_memory = device.allocate(element_count(instance.results[1].shape) * 4);
  const auto workspace = device.allocate(device.workspace_bytes(instance));
  device.copy_from_host(StreamKind::compute, value_memory.get(), value.data(), element_count(k) * 4);
  const void* const operands[] = {query_memory.get(), key_memory.get(), value_memory.get()};
  void* const results[] = {output_memory.get(), row_memory.get()};
  device.prepare(instance)->launch({operands, results, workspace.get(), context});
  std::vector<float> output(static_cast<std::size_t>(element_count(q)));
  device.copy_to_host(StreamKind::compute, output.data(), output_memory.get(), element_count(q) * 4);
  std::vector<bool> kept;
  for (const float each : output) kept.push_back(each != 0.0F);
  return kept;
}

TEST(AttentionDropout, KeepsWhatTheDefinitionKeeps) {
  OpCase op_case{.name = "attention",
                 .op = "attention",
                 .sizes = {{"batch", 4}, {"seq", 48}, {"kv_heads", 4}, {"group", 2}, {"head_dim", 48}},
                 .operands = {{{"batch", "seq", "kv_heads", "group", "head_dim"}},
                              {{"batch", "seq", "kv_heads", "head_dim"}},
                              {{"batch", "seq", "kv_heads", "head_dim"}}},
                 .attributes = {{"causal", false}, {"dropout", 0.3}}};
  op_case.shards = {{"batch", shard(4, 2, 1)},
                    {"seq", shard(48, 2, 0, Distribution::zigzag)},
                    {"kv_heads", shard(4, 2, 1)},
                    {"kv_seq", shard(48, 2, 1, Distribution::zigzag)}};
  const OpInstance instance = make_instance(op_case, core_registry(), DType::f32);
  const StepContext context{.step = 3, .micro_batch = 2, .learning_rate = 0.0};
  const std::uint64_t key = random::stream_key(instance.seed, "attention", 3);
  const auto& maps = instance.index_maps;
  std::vector<bool> expected;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t q = 0; q < 24; ++q) {
      for (std::int64_t h = 0; h < 4; ++h) {
        for (std::int64_t k = 0; k < 48; ++k) {
          const std::int64_t sample = 2 * 4 + maps.at("batch").global_index(b);
          const std::int64_t head = maps.at("kv_heads").global_index(h / 2) * 2 + h % 2;
          const std::int64_t position = k < 24 ? maps.at("kv_seq").global_index(k) : 0;
          const std::int64_t index = ((sample * 8 + head) * 48 + maps.at("seq").global_index(q)) * 48 + position;
          // Columns of the output past the last key stay empty.
          expected.push_back(k < 24 &&
                             random::word(key, static_cast<std::uint64_t>(index)) >= random::drop_threshold(0.3));
        }
      }
    }
  }
  for (const DeviceUnderTest& each : devices_under_test()) {
    const auto device = make_device(each.plugin, each.options);
    EXPECT_EQ(kept_of_attention(*device, instance, context), expected) << device->description();
  }
}

}  // namespace
}  // namespace strata::testing
