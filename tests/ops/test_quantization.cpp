// Block-wise quantisation: its error bound for random numbers of every magnitude, and its results for numbers that are
// not finite.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ops/devices.hpp"
#include "ops/op_case.hpp"
#include "random_choice.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"
#include "strata/internal/quantization.hpp"
#include "strata/random.hpp"

namespace strata::testing {
namespace {

using Values = std::vector<double>;

struct Quantized {
  Values integers;
  Values scales;
};

/// Runs of numbers and their quantisation.
struct Runs {
  BlockQuantization by;
  std::int64_t runs = 1;
  std::int64_t length = 1;
  DType dtype = DType::f32;

  [[nodiscard]] DType scale_type() const { return dtype == DType::f64 ? DType::f64 : DType::f32; }
  [[nodiscard]] OperandDescription numbers() const { return {dtype, {"run", "number"}, {runs, length}}; }
  [[nodiscard]] OperandDescription integers(std::int64_t sources = 1) const {
    return {DType::i8, {"run", "byte"}, {sources * runs, by.bytes(length)}};
  }
  [[nodiscard]] OperandDescription scales(std::int64_t sources = 1) const {
    return {scale_type(), {"run", "block"}, {sources * runs, by.scales(length)}};
  }
};

OpInstance instance_of(const std::string& op, const BlockQuantization& by, std::vector<OperandDescription> operands,
                       std::vector<OperandDescription> results) {
  OpInstance instance;
  instance.op = op;
  instance.name = "test";
  by.add_to(instance.attributes);
  instance.operands = std::move(operands);
  instance.results = std::move(results);
  return instance;
}

std::vector<Values> run(Device& device, const OpInstance& instance, std::vector<Values> operands) {
  CaseValues values{std::move(operands), {}};
  for (const OperandDescription& result : instance.results) {
    values.before.emplace_back(static_cast<std::size_t>(element_count(result.shape)),
                               std::numeric_limits<double>::quiet_NaN());
  }
  return run_case({}, instance, values, device);
}

Quantized quantize(Device& device, const Runs& runs, const Values& x) {
  const auto results =
      run(device, instance_of("quantize_blocks", runs.by, {runs.numbers()}, {runs.integers(), runs.scales()}), {x});
  return {results[0], results[1]};
}

/// Dequantises in the type of the scales, so that only the product is rounded.
Values dequantize(Device& device, const Runs& runs, const Quantized& quantized, std::int64_t sources = 1) {
  OperandDescription numbers = runs.numbers();
  numbers.dtype = runs.scale_type();
  return run(device,
             instance_of("dequantize_blocks", runs.by, {runs.integers(sources), runs.scales(sources)}, {numbers}),
             {quantized.integers, quantized.scales})[0];
}

double rounded_to(DType type, double value) {
  if (type == DType::f64) return value;
  const auto single = static_cast<float>(value);
  if (type == DType::bf16) return from_bf16(to_bf16(single));
  return type == DType::f16 ? from_f16(to_f16(single)) : single;
}

/// Draws numbers of one magnitude, of every magnitude up to 10^±`decades`, near the smallest number of the type, or
/// zeros.
Values draw_numbers(RandomChoice& choices, const Runs& runs) {
  const std::int64_t decades = runs.dtype == DType::f16 ? 4 : 37;
  const std::int64_t kind = choices.below(4);
  Values x;
  for (std::int64_t i = 0; i < runs.runs * runs.length; ++i) {
    double value = choices.normal();
    if (kind == 1) value *= std::pow(10.0, static_cast<double>(choices.below(2 * decades + 1) - decades));
    if (kind == 2) value *= 1e-44;
    if (kind == 3 && choices.below(3) != 0) value = 0.0;
    x.push_back(rounded_to(runs.dtype, value));
  }
  return x;
}

Runs draw_runs(RandomChoice& choices, const std::vector<DType>& types) {
  Runs runs;
  runs.by.bits = choices.of<int>({4, 8});
  runs.by.block =
      runs.by.bits == 8 ? choices.of<std::int64_t>({1, 3, 64, 256}) : choices.of<std::int64_t>({2, 64, 256, 600});
  runs.runs = 1 + choices.below(4);
  runs.length = 1 + choices.below(1500);
  runs.dtype = choices.of(types);
  return runs;
}

/// Calls visit(index of the block, begin, end) for each block.
void each_block(const Runs& runs, const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) {
  std::size_t block = 0;
  for (std::int64_t run = 0; run < runs.runs; ++run) {
    for (std::int64_t begin = 0; begin < runs.length; begin += runs.by.block) {
      visit(block++, static_cast<std::size_t>(run * runs.length + begin),
            static_cast<std::size_t>(run * runs.length + std::min(begin + runs.by.block, runs.length)));
    }
  }
}

struct NamedDevice {
  std::string name;
  std::shared_ptr<Device> device;
  std::vector<DType> types;
};

std::vector<NamedDevice> devices_with_types() {
  std::vector<NamedDevice> devices = {
      {"reference", make_device("reference"), {DType::f64, DType::f32, DType::bf16, DType::f16}}};
  for (const auto& [name, device] : cpu_devices(3)) {
    devices.push_back({name, device, {DType::f32, DType::bf16, DType::f16}});
  }
  for (const std::string& name : accelerators()) {
    devices.push_back({name, make_device(name), {DType::f64, DType::f32, DType::bf16, DType::f16}});
  }
  return devices;
}

class Quantization : public ::testing::Test {
 protected:
  /// Calls test(device, its types) for every device.
  static void on_every_device(const std::function<void(Device&, const std::vector<DType>&)>& test) {
    for (const NamedDevice& each : devices_with_types()) {
      SCOPED_TRACE(each.name);
      test(*each.device, each.types);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
};

/// Expects each scale to be the block's largest magnitude divided by the largest integer, rounded to the type and never
/// denormal.
void expect_scales(const Runs& runs, const Values& x, const Values& scales) {
  const double smallest =
      runs.dtype == DType::f64 ? std::numeric_limits<double>::min() : double{std::numeric_limits<float>::min()};
  each_block(runs, [&](std::size_t block, std::size_t begin, std::size_t end) {
    double greatest = 0.0;
    for (std::size_t i = begin; i < end; ++i) greatest = std::max(greatest, std::abs(x[i]));
    const double wanted = std::max(greatest / runs.by.largest(), smallest);
    ASSERT_EQ(scales[block], rounded_to(runs.scale_type(), wanted)) << "block " << block;
  });
}

TEST_F(Quantization, ErrsByHalfAScaleAtMost) {
  on_every_device([](Device& device, const std::vector<DType>& types) {
    RandomChoice choices(1, "quantization");
    for (int round = 0; round < 200; ++round) {
      const Runs runs = draw_runs(choices, types);
      SCOPED_TRACE("round " + std::to_string(round) + ", " + std::to_string(runs.by.bits) + " bits, blocks of " +
                   std::to_string(runs.by.block) + ", runs of " + std::to_string(runs.length) + " " +
                   std::string(to_string(runs.dtype)));
      const Values x = draw_numbers(choices, runs);
      const Quantized quantized = quantize(device, runs, x);
      ASSERT_NO_FATAL_FAILURE(expect_scales(runs, x, quantized.scales));
      const Values back = dequantize(device, runs, quantized);
      // The quotient and the product are each rounded to 2^-24 of up to 127 scales.
      const double half = 0.5 + 127 * 0x1p-23;
      each_block(runs, [&](std::size_t block, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          ASSERT_LE(std::abs(back[i] - x[i]), half * quantized.scales[block]) << "number " << i;
        }
      });
    }
  });
}

TEST_F(Quantization, KeepsWhatIsOnTheGrid) {
  on_every_device([](Device& device, const std::vector<DType>&) {
    RandomChoice choices(2, "quantization");
    for (const int bits : {4, 8}) {
      const Runs runs{{bits, 64}, 3, 321};
      const std::int64_t largest = runs.by.largest();
      Values x;
      for (std::int64_t i = 0; i < runs.runs * runs.length; ++i) {
        const bool is_first = i % runs.length % runs.by.block == 0;
        const std::int64_t integer = is_first ? -largest : choices.below(2 * largest + 1) - largest;
        x.push_back(0.03125 * static_cast<double>(integer));
      }
      EXPECT_EQ(dequantize(device, runs, quantize(device, runs, x)), x) << bits << " bits";
    }
  });
}

TEST_F(Quantization, MakesABlockWithANumberThatIsNotFiniteNotANumber) {
  on_every_device([](Device& device, const std::vector<DType>&) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()}) {
      for (const int bits : {4, 8}) {
        const Runs runs{{bits, 32}, 2, 101};
        Values x = random_values("finite", runs.runs * runs.length, Fill::normal);
        x[static_cast<std::size_t>(runs.length + 70)] = bad;
        const Values back = dequantize(device, runs, quantize(device, runs, x));
        each_block(runs, [&](std::size_t block, std::size_t begin, std::size_t end) {
          const bool is_bad = block == 4 + 2;
          for (std::size_t i = begin; i < end; ++i) ASSERT_EQ(std::isnan(back[i]), is_bad) << "number " << i;
        });
      }
    }
  });
}

TEST_F(Quantization, AddsUpWhatComesFromSeveralRanks) {
  on_every_device([](Device& device, const std::vector<DType>&) {
    const Runs runs{{4, 64}, 3, 333};
    const Runs all{runs.by, 4 * runs.runs, runs.length};
    const Values x = random_values("sources", all.runs * all.length, Fill::normal);
    const Quantized quantized = quantize(device, all, x);
    const Values each = dequantize(device, all, quantized);
    const Values sum = dequantize(device, runs, quantized, 4);
    ASSERT_EQ(sum.size() * 4, each.size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      double expected = 0.0;
      for (std::size_t source = 0; source < 4; ++source) expected += each[source * sum.size() + i];
      EXPECT_NEAR(sum[i], expected, 1e-5);
    }
  });
}

TEST_F(Quantization, RefusesSizesThatDoNotFit) {
  const Runs runs{{8, 64}, 2, 100};
  OpInstance instance = instance_of("quantize_blocks", runs.by, {runs.numbers()}, {runs.integers(), runs.scales()});
  EXPECT_NO_THROW(static_cast<void>(QuantizedRuns::from(instance)));
  instance.results[1].shape.back() += 1;
  EXPECT_THROW(static_cast<void>(QuantizedRuns::from(instance)), VerificationError);
  EXPECT_TRUE(make_device("cpu")->unsupported(instance).has_value());
  for (const BlockQuantization& wrong : {BlockQuantization{3, 64}, BlockQuantization{8, 0}, BlockQuantization{4, 7}}) {
    Attributes attributes;
    wrong.add_to(attributes);
    EXPECT_THROW(static_cast<void>(BlockQuantization::from(attributes)), VerificationError) << wrong.bits;
  }
}

}  // namespace
}  // namespace strata::testing
