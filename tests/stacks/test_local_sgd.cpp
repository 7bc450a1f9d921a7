// Local SGD: replicas that train apart between outer steps.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "compiler/program/step_variants.hpp"
#include "reports/program_summary.hpp"
#include "stack_row.hpp"
#include "verify/random_inputs.hpp"

namespace strata::testing {
namespace {

using ::testing::HasSubstr;

/// Options of two steps between outer steps.
const std::string kEverySecond = "steps = 2\n";

std::string local(int replicas, const std::string& options = kEverySecond) {
  return table("localsgd", replicas, options);
}

/// The largest difference between the values of replicas and `values`, which may be those of one or of all replicas.
double difference(const std::vector<double>& replicas, const std::vector<double>& values) {
  double largest = 0;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    largest = std::max(largest, std::abs(replicas[i] - values[i % values.size()]));
  }
  return largest;
}

// --- equal to the definition on one rank

class LocalSgd : public ::testing::TestWithParam<StackRow> {};

TEST_P(LocalSgd, TrainsAsDefined) {
  const StackRow& row = GetParam();
  BuiltPlugins plugins;
  const host::Verification verification =
      host::verify_stack(small_gpt2(row.strategies, row.global_batch, row.micro_batch), plugins, {3, true});
  EXPECT_EQ(verification.mesh.rank_count(), row.ranks);
  EXPECT_LT(verification.difference.worst(), 1e-10) << verification.difference.worst_parameter;
  EXPECT_EQ(verification.stack.replica_difference, 0);
  EXPECT_EQ(verification.stack.planned_peak_bytes, verification.stack.arena_peak_bytes);
  EXPECT_EQ(verification.stack.planned_offload, verification.stack.offload_peak);
  EXPECT_THAT(verification.missed, ::testing::IsEmpty());
}

std::vector<StackRow> rows() {
  return {
      {"two", local(2), 2},
      {"three", local(3), 3, 12},
      {"four", local(4), 4, 8, 1},
      {"one_replica_takes_outer_steps", local(1), 1},
      {"every_step", local(2, "steps = 1\n"), 2},
      {"average", local(2, kEverySecond + "outer_lr = 1.0\nouter_momentum = 0.0\n"), 2},
      {"heavy_ball", local(2, kEverySecond + "nesterov = false\n"), 2},
      {"several_micro_batches", local(2), 2, 16, 1},
      {"inside_of_ddp", table("ddp", 2) + local(2), 4, 8, 1},
      {"outside_of_ddp", local(2) + table("ddp", 2), 4, 8, 1},
      {"two_levels", local(2, "steps = 4\naxis = \"sites\"\n") + local(2), 4, 8, 1},
      {"two_levels_out_of_step", local(2, "steps = 3\naxis = \"sites\"\n") + local(2), 4, 8, 1},
      {"single_writer", local(2) + table("dataparallel", 2), 4, 8, 1},
      {"zero_1", local(2) + table("zero", 2, "stage = 1\n"), 4, 8, 1},
      {"zero_2", table("zero", 2, "stage = 2\n") + local(2), 4, 8, 1},
      {"zero_3", local(2) + table("zero", 2, "stage = 3\n"), 4, 8, 1},
      {"zero_offloaded",
       local(2) + table("zero", 2, "stage = 3\noffload_optimizer = \"host\"\noffload_param = \"host\"\n"), 4, 8, 1},
      {"zero_offloaded_overlapped",
       local(2, "steps = 3\noverlap = true\n") + table("zero", 2, "offload_optimizer = \"file\"\n"), 4, 8, 1},
      {"tensor", local(2) + table("tensor", 2, kSequenceParallel), 4},
      {"context", local(2) + table("context", 2), 4},
      {"pipeline", local(2) + table("pipeline", 2), 4, 8, 1},
      {"pipeline_zero_1", local(2) + table("pipeline", 2) + table("zero", 2), 8, 8, 1},
      {"scaled_loss", local(2) + table("precision", std::string("compute = \"fp16\"")), 2},
      {"recompute", local(2) + table("recompute", std::string()), 2},
      {"fragments", local(2, "steps = 2\nfragments = 2\n"), 2},
      {"more_fragments", local(3, "steps = 5\nfragments = 3\n"), 3, 12},
      {"overlap", local(2, "steps = 2\noverlap = true\n"), 2},
      {"overlap_without_mixing", local(2, "steps = 3\noverlap = true\nmixing = 0.0\n"), 2},
      {"streaming", local(2, "steps = 6\nfragments = 2\noverlap = true\n"), 2},
      {"streaming_pipeline", local(2, "steps = 4\nfragments = 2\noverlap = true\n") + table("pipeline", 2), 4, 8, 1},
  };
}

INSTANTIATE_TEST_SUITE_P(Rows, LocalSgd, ::testing::ValuesIn(rows()), [](const auto& info) { return info.param.name; });

/// The proof must be able to fail: other options give another result, of the program and of the definition.
TEST(LocalSgdDefinition, TellsOuterStepsApart) {
  BuiltPlugins plugins;
  const auto verified = [&](const std::string& options) {
    return host::verify_stack(small_gpt2(local(2, kEverySecond + options), 8, 2), plugins, {3, true});
  };
  const host::Verification published = verified("");
  for (const std::string other :
       {"outer_lr = 0.71\n", "outer_momentum = 0.8\n", "nesterov = false\n", "overlap = true\n", "fragments = 2\n"}) {
    const host::Verification changed = verified(other);
    const auto& expected = published.single.parameters.at("h.0.mlp.c_fc.weight");
    EXPECT_GT(difference(changed.stack.parameters.at("h.0.mlp.c_fc.weight"), expected), 1e-6) << other;
    EXPECT_GT(difference(changed.single.parameters.at("h.0.mlp.c_fc.weight"), expected), 1e-6) << other;
  }
}

// --- equal to data parallelism in the case in which it should be

/// Random tokens, all of them with a target, so that all replicas have equally many.
class FullInputs : public host::InputSource {
 public:
  explicit FullInputs(std::uint64_t seed) : inputs_(seed, inputs(), {{"vocab", 16}, {"seq", 1024}}) {}
  void load(const host::InputPart& part, std::uint64_t step) override { inputs_.load(part, step); }

 private:
  /// No input is marked as targets, so none is left out.
  static std::vector<DatasetInput> inputs() {
    return {{.name = "tokens", .dims = {"seq"}, .indexes = "vocab"},
            {.name = "targets", .dims = {"seq"}, .indexes = "vocab"},
            {.name = "positions", .dims = {"seq"}, .indexes = "seq", .per_sample = false}};
  }

  host::RandomInputs inputs_;
};

host::StackResult train(const host::RunConfiguration& configuration, DType float_type, int steps,
                        host::InputSource& inputs) {
  BuiltPlugins plugins;
  const host::RunSetup setup = host::prepare(configuration, plugins);
  host::CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = float_type;
  const std::unique_ptr<Device> device = setup.make_device(0, setup.stack.mesh.rank_count());
  request.device = device.get();
  const host::Compiled compiled = setup.compile(request);
  const std::unique_ptr<World> world = setup.make_world();
  const int ranks = compiled.mesh.rank_count();
  return host::run_stack(
      compiled, *world, [&](int rank) { return setup.make_device(rank, ranks); }, {1, 0.1, steps}, inputs);
}

/// Trains by plain gradient descent in f64.
host::StackResult descend(const std::string& strategies, int steps) {
  host::RunConfiguration configuration = small_gpt2(strategies, 8, 2);
  configuration.optimizer.optimizer.plugin = "sgd";
  configuration.optimizer.optimizer.options.clear();
  configuration.optimizer.clip = 0;
  FullInputs inputs(1);
  return train(configuration, DType::f64, steps, inputs);
}

/// The largest difference between the two replicas of a parameter.
double replica_difference(const host::StackResult& result) {
  const std::vector<double>& both = result.parameters.at("wte.weight");
  const auto half = both.begin() + static_cast<std::ptrdiff_t>(both.size() / 2);
  return difference({both.begin(), half}, {half, both.end()});
}

TEST(LocalSgdWithoutInnerSteps, IsDataParallel) {
  const host::StackResult ddp = descend(table("ddp", 2), 4);
  const host::StackResult replicas = descend(local(2, "steps = 1\nouter_lr = 1.0\nouter_momentum = 0.0\n"), 4);
  for (const auto& [name, values] : ddp.parameters) {
    ASSERT_EQ(replicas.parameters.at(name).size(), 2 * values.size()) << name;
    EXPECT_LT(difference(replicas.parameters.at(name), values), 1e-14) << name;
  }
  for (std::size_t step = 0; step < 4; ++step) EXPECT_NEAR(replicas.losses[step], ddp.losses[step], 1e-13);
}

TEST(LocalSgdReplicas, DifferBetweenOuterStepsAndAgreeAfterThem) {
  EXPECT_GT(replica_difference(descend(local(2), 1)), 1e-6);
  EXPECT_EQ(replica_difference(descend(local(2), 2)), 0);
  EXPECT_GT(replica_difference(descend(local(2), 3)), 1e-6);
}

// --- steps that are skipped

/// Only the second replica has targets, so the gradient of the first is zero. It is always finite.
class TargetsOfTheSecondReplica final : public FullInputs {
 public:
  using FullInputs::FullInputs;
  void load(const host::InputPart& part, std::uint64_t step) override {
    FullInputs::load(part, step);
    if (part.name != "targets" || part.dims[0].segments.front().global_begin % 4 >= 2) return;
    std::fill_n(reinterpret_cast<std::int32_t*>(part.destination),
                part.dims[0].local_size() * part.dims[1].local_size(), -1);
  }
};

/// A replica whose own gradient is finite skips the step too. Without that, weight decay alone would change its values.
TEST(LocalSgdReplicas, SkipAStepTogether) {
  const auto trained = [](const std::string& scale) {
    const std::string precision = "compute = \"fp16\"\nloss_scale = \"dynamic\"\ninitial_scale = " + scale + "\n";
    host::RunConfiguration configuration = small_gpt2(local(2, "steps = 100\n") + table("precision", precision), 8, 2);
    configuration.optimizer.weight_decay = 0.1;
    TargetsOfTheSecondReplica inputs(1);
    return train(configuration, DType::f32, 1, inputs);
  };
  EXPECT_EQ(replica_difference(trained("1099511627776.0")), 0) << "the gradient of the second replica overflows";
  EXPECT_GT(replica_difference(trained("1.0")), 0);
}

// --- integers on the wire

/// Trains in f64 with outer gradients as integers. The inner optimizer carries on what differs.
class QuantizedOuterGradients : public ::testing::TestWithParam<const char*> {};

TEST_P(QuantizedOuterGradients, TrainNearlyAsDefinedAndAlikeOnAllReplicas) {
  const std::string options = kEverySecond + "quantization = \"always\"\nouter_gradients = \"" + GetParam() + "\"\n";
  BuiltPlugins plugins;
  const host::Verification verification =
      host::verify_stack(small_gpt2(local(3, options) + table("zero", 2), 12, 1), plugins, {3, true});
  EXPECT_LT(verification.difference.loss, 1e-2);
  EXPECT_GT(verification.difference.parameter, 1e-6) << "integers were sent";
  EXPECT_LT(verification.difference.parameter, 0.1);
  EXPECT_EQ(verification.stack.replica_difference, 0);
  EXPECT_EQ(verification.stack.planned_peak_bytes, verification.stack.arena_peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedOuterGradients, ::testing::Values("int8", "int4"),
                         [](const auto& info) { return std::string(info.param); });

/// Every rank sends its integers and scales once to each other replica.
TEST(QuantizedOuterGradientsOnTheWire, AreFewerBytes) {
  for (const auto& [type, bytes] : {std::pair<std::string, double>{"int8", 1.0}, {"int4", 0.5}}) {
    const std::string options = "steps = 10\nouter_gradients = \"" + type + "\"\n";
    const host::Compiled compiled = compile_training(small_gpt2(local(2, options), 8, 2));
    const double parameters = static_cast<double>(host::parameter_count(compiled.graph));
    double sent = 0;
    for (const auto& each : host::summarize_communication(compiled.program(0), 9)) sent += each.bytes;
    EXPECT_NEAR(sent, parameters * (bytes + 4.0 / 256), 200) << type;
  }
}

// --- traffic

double bytes_of_gradients(const Program& program, std::uint64_t step) {
  double bytes = 0;
  for (const auto& each : host::summarize_communication(program, step)) bytes += each.bytes;
  return bytes;
}

TEST(LocalSgdTraffic, IsThatOfScalarsBetweenOuterSteps) {
  const host::Compiled compiled = compile_training(small_gpt2(local(2, "steps = 10\n"), 8, 2));
  const Program& program = compiled.program(0);
  const double whole = static_cast<double>(host::parameter_count(compiled.graph)) * 4;
  EXPECT_EQ(bytes_of_gradients(program, 0), 3 * 8);
  EXPECT_NEAR(bytes_of_gradients(program, 9), whole, 3 * 8);
  double average = 0;
  for (const auto& each : host::average_communication(program)) average += each.bytes;
  EXPECT_NEAR(average, whole / 10, 3 * 8);
}

/// Fragments take turns, so no step sends what all of them send together.
TEST(LocalSgdTraffic, HasALowerPeakWithFragments) {
  const host::Compiled compiled = compile_training(small_gpt2(local(2, "steps = 10\nfragments = 2\n"), 8, 2));
  const Program& program = compiled.program(0);
  const double whole = static_cast<double>(host::parameter_count(compiled.graph)) * 4;
  double sum = 0;
  for (const host::StepVariant& each : host::step_variants(program).variants) {
    const double bytes = bytes_of_gradients(program, each.step) - 3 * 8;
    EXPECT_LT(bytes, 0.75 * whole);
    if (each.count == 1) sum += bytes;
  }
  EXPECT_NEAR(sum, whole, 1);
}

/// The exchange starts before the first forward pass, and the epilogue waits for it.
TEST(LocalSgdOverlap, SpansTheWholeStep) {
  const host::Compiled compiled = compile_training(small_gpt2(local(2, "steps = 4\noverlap = true\n"), 8, 2));
  bool starts = false;
  for (const Task& task : compiled.program(0).tasks) {
    for (const Instruction& each : task.instructions) {
      if (each.name.find("outer gradient all_reduce") == std::string::npos) continue;
      starts = true;
      EXPECT_EQ(task.kind, Task::Kind::prologue);
      EXPECT_EQ(each.when, (StepCondition{4, 3}));
    }
    if (task.kind == Task::Kind::epilogue) continue;
    for (const Instruction& each : task.instructions) EXPECT_THAT(each.waits, ::testing::IsEmpty()) << each.name;
  }
  EXPECT_TRUE(starts);
}

// --- refusals

std::string local_sgd_refusal(const std::string& strategies) {
  try {
    (void)compile_training(small_gpt2(strategies, 8, 1));
    return "";
  } catch (const ConfigurationError& error) {
    return error.what();
  }
}

TEST(LocalSgdRefusals, NameTheCulprit) {
  EXPECT_THAT(
      local_sgd_refusal(local(2) + table("zero", 2, "also_over = [\"replica\"]\n")),
      HasSubstr("strategy 2 'zero' stores parameters over mesh axis 'replica', along which replicas train apart"));
  EXPECT_THAT(local_sgd_refusal(local(2, "steps = 3\nfragments = 2\noverlap = true\n")),
              HasSubstr("strategy.0.steps: found 3 with fragments = 2 and overlap; accepted: 4 or more"));
  EXPECT_THAT(local_sgd_refusal(local(2, "steps = 1009\n") + local(2, "steps = 1048573\naxis = \"sites\"\n")),
              HasSubstr("repeat only after more than"));
}

}  // namespace
}  // namespace strata::testing
