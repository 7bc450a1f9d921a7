/// \file
/// Runs with a batch that cannot be trained on: the rules of [health] stop, skip it, or go back. A batch that the loss
/// does not count is skipped. Each result is compared with a run that is led around the batch by hand.

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "build_paths.hpp"
#include "data/data_source.hpp"
#include "small_run.hpp"
#include "strata/error.hpp"
#include "train/run_recorder.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kBatch = 16;
constexpr std::uint64_t kSeed = 11;
/// Its batch is bad. The last checkpoint before it is of step 6.
constexpr std::uint64_t kBadStep = 8;

class HealthRecorder : public RunRecorder {
 public:
  using RunRecorder::RunRecorder;
  void checkpoint(const CheckpointRecord& record) override {
    if (record.step == damages) fs::resize_file(record.path / "rank-00000.safetensors", 100);
  }
  [[nodiscard]] const StepRecord& record_of(std::uint64_t step) const {
    const auto found =
        std::find_if(steps.begin(), steps.end(), [&](const StepRecord& each) { return each.step == step; });
    if (found == steps.end()) throw RuntimeError("there is no step " + std::to_string(step));
    return *found;
  }

  /// Step whose checkpoint is damaged when it is complete.
  std::uint64_t damages = 0;
};

/// The losses of the steps from `from` to `to`.
std::vector<double> losses(const HealthRecorder& run, std::uint64_t from, std::uint64_t to) {
  std::vector<double> values;
  for (std::uint64_t step = from; step <= to; ++step) values.push_back(run.record_of(step).loss);
  return values;
}

struct Stack {
  std::string name;
  std::string strategies;
  int ranks = 2;
};

void PrintTo(const Stack& stack, std::ostream* out) { *out << stack.name; }

class Health : public ::testing::TestWithParam<Stack> {
 protected:
  Health() { ::setenv("STRATA_PLUGIN_PATH", sample_plugin_folder().c_str(), 1); }
  ~Health() override { ::unsetenv("STRATA_PLUGIN_PATH"); }

  /// The data with a bad batch in a step, whose pixels have a value, or are no numbers.
  static std::string poison(double value = 0, const std::vector<std::uint64_t>& steps = {kBadStep},
                            bool is_counted = true) {
    const SampleOrder order(kSeed, 160);
    std::string bad;
    for (const std::uint64_t step : steps) {
      for (std::uint64_t i = 0; i < kBatch; ++i) {
        bad += (bad.empty() ? "" : ", ") + std::to_string(order((step - 1) * kBatch + i).index);
      }
    }
    return "data={plugin=\"poisoned\", bad=[" + bad + "], value=" + std::to_string(value) +
           ", counted=" + (is_counted ? "true" : "false") + "}";
  }

  [[nodiscard]] RunConfiguration configuration(const std::vector<std::string>& settings) const {
    const std::string text =
        "[run]\nsteps = 14\nseed = 11\ncheckpoint_every = 3\n[model]\nplugin = \"sample_images\"\nhidden = 16\n"
        "[data]\nplugin = \"poisoned\"\n[batch]\nglobal = 16\nmicro = 4\n[optimizer]\nlr = 1e-2\nclip = 1.0\n"
        "[device]\nplugin = \"cpu\"\nthreads = 1\n";
    std::vector<std::string> all{"strategy=[" + GetParam().strategies + "]"};
    all.insert(all.end(), settings.begin(), settings.end());
    return parse_configuration(text, "health.toml", all);
  }

  HealthRecorder run(const std::string& folder, const std::vector<std::string>& settings, const fs::path& resume = {},
                     std::uint64_t stop_after = 0) {
    HealthRecorder recorder(stop_after);
    train(recorder, folder, settings, resume);
    return recorder;
  }
  void train(HealthRecorder& recorder, const std::string& folder, const std::vector<std::string>& settings,
             const fs::path& resume = {}) {
    const RunSetup setup = prepare(configuration(settings), registry_);
    const DataSource source = setup.open_data();
    const CheckpointSettings checkpoints{folder_.path() / folder, setup.configuration.run.checkpoint_every, 0};
    Trainer(setup, source, checkpoints, {resume}, recorder).run();
  }

  /// Compares a run that left out the update of the bad step with one to that step, which goes on after it.
  void equals_run_by_hand(const std::string& folder, const HealthRecorder& skipped) {
    EXPECT_EQ(skipped.steps.size(), 14U) << "the step counts";
    const std::string hand = folder + "-hand";
    const HealthRecorder before = run(hand, {}, {}, kBadStep - 1);
    edit(checkpoint(hand, kBadStep - 1), [](RunState& state) {
      state.step = kBadStep;
      state.samples = kBadStep * kBatch;
      state.loss_scaler = LossScalerState{.skipped_steps = 1};
    });
    const HealthRecorder after = run(hand, {}, checkpoint(hand, kBadStep - 1));
    EXPECT_EQ(losses(skipped, 1, kBadStep - 1), losses(before, 1, kBadStep - 1));
    EXPECT_EQ(losses(skipped, kBadStep + 1, 14), losses(after, kBadStep + 1, 14));
    EXPECT_TRUE(tensors(folder, 14) == tensors(hand, 14));
  }

  [[nodiscard]] fs::path checkpoint(const std::string& folder, std::uint64_t step) const {
    return folder_.path() / folder / checkpoint_name(step);
  }
  /// The tensors of a checkpoint, bit for bit.
  [[nodiscard]] std::string tensors(const std::string& folder, std::uint64_t step) const {
    std::string bytes;
    for (int rank = 0; rank < GetParam().ranks; ++rank) {
      bytes += test::read_file(checkpoint(folder, step) / ("rank-0000" + std::to_string(rank) + ".safetensors"));
    }
    return bytes;
  }
  /// Gives a checkpoint another state of the run.
  static void edit(const fs::path& checkpoint, const std::function<void(RunState&)>& change) {
    Manifest manifest = read_manifest(checkpoint / kManifestName);
    change(manifest.run);
    std::ofstream(checkpoint / kManifestName) << to_json(manifest);
  }

  test::TemporaryFolder folder_;
  PluginRegistry registry_{{plugin_folder(), sample_plugin_folder()}};
};

const std::vector<std::string> kFindsJumps{"health.loss_jump=5", "health.window=4"};

std::vector<std::string> with(const std::string& setting, std::vector<std::string> all = {}) {
  all.push_back(setting);
  return all;
}

/// What makes the batch bad, and the rule for it.
struct Poison {
  double value = 0;
  std::vector<std::string> settings = {};
};

const Poison kNotFinite{0, {}};
const Poison kJump{1000, kFindsJumps};

std::string rule_of(const Poison& poison) { return poison.value == 0 ? "health.not_finite" : "health.jump"; }

TEST_P(Health, AStepThatTheLossDoesNotCountChangesNothing) {
  const HealthRecorder skipped = run("uncounted", {poison(0, {kBadStep}, false)});
  EXPECT_TRUE(skipped.faults.empty()) << "no rule of [health] applies";
  const StepRecord& bad = skipped.record_of(kBadStep);
  EXPECT_TRUE(std::isnan(bad.loss));
  EXPECT_EQ(bad.gradient_norm, 0);
  EXPECT_TRUE(bad.skipped);
  EXPECT_EQ(bad.fault, "the loss counts no element of its batch");
  equals_run_by_hand("uncounted", skipped);
}

TEST_P(Health, SkippedStepsAreAsIfTheyHadNotBeen) {
  for (const Poison& each : {kNotFinite, kJump}) {
    const std::string name = each.value == 0 ? "finite" : "jump";
    const std::vector<std::string> settings = with(rule_of(each) + "=\"skip\"", each.settings);
    const HealthRecorder skipped = run(name, with(poison(each.value), settings));
    ASSERT_EQ(skipped.faults.size(), 1U);
    EXPECT_EQ(skipped.faults[0].step, kBadStep);
    EXPECT_TRUE(skipped.record_of(kBadStep).skipped);
    equals_run_by_hand(name, skipped);
  }
}

TEST_P(Health, RewoundRunsLeaveOutTheData) {
  for (const Poison& each : {kNotFinite, kJump}) {
    const std::string name = each.value == 0 ? "finite" : "jump";
    const std::vector<std::string> settings = with(rule_of(each) + "=\"rewind\"", each.settings);
    const HealthRecorder rewound = run(name, with(poison(each.value), settings));
    ASSERT_EQ(rewound.faults.size(), 1U);
    EXPECT_EQ(rewound.faults[0].back_to, 6U);
    EXPECT_EQ(rewound.faults[0].left_out, (SampleRange{6 * kBatch, kBadStep * kBatch}));
    const CheckpointReader last(checkpoint(name, 14));
    EXPECT_EQ(last.run().samples, 16 * kBatch);
    EXPECT_EQ(last.run().health.value().rewinds, 1);

    // By hand: the run up to the checkpoint, and the rest on the data after the bad batch.
    const HealthRecorder before = run(name + "-hand", {}, {}, 6);
    edit(checkpoint(name + "-hand", 6), [](RunState& state) { state.samples = kBadStep * kBatch; });
    const HealthRecorder after = run(name + "-hand", {}, checkpoint(name + "-hand", 6));
    EXPECT_EQ(losses(rewound, 1, 6), losses(before, 1, 6));
    EXPECT_EQ(losses(rewound, 7, 14), losses(after, 7, 14));
    EXPECT_TRUE(tensors(name, 14) == tensors(name + "-hand", 14));
  }
}

TEST_P(Health, ARewindSkipsDamagedCheckpoints) {
  HealthRecorder rewound;
  rewound.damages = 6;
  train(rewound, "rewound", {poison(), "health.not_finite=\"rewind\""});
  ASSERT_EQ(rewound.faults.size(), 1U);
  EXPECT_EQ(rewound.faults[0].back_to, 3U);
  EXPECT_EQ(rewound.faults[0].left_out, (SampleRange{3 * kBatch, kBadStep * kBatch}));
  EXPECT_THAT(rewound.warnings, ElementsAre(HasSubstr(checkpoint("rewound", 6).string())));
}

TEST_P(Health, AStopNamesTheCheckpointOfTheLastGoodStep) {
  // Without a guard, the newest one that the run has written anyway. One is due after the bad step, too.
  HealthRecorder plain;
  EXPECT_THAT(message_of<RuntimeError>([&] {
                train(plain, "plain", {poison(), "run.checkpoint_every=4"});
              }),
              AllOf(HasSubstr("step 8: the loss is nan"), HasSubstr(checkpoint("plain", 4).string())));
  EXPECT_FALSE(fs::exists(checkpoint("plain", 8)));
  EXPECT_EQ(plain.faults.size(), 1U);

  // With one, the bad step changes nothing, so its checkpoint is that of the step before.
  HealthRecorder guarded;
  const std::string message =
      message_of<RuntimeError>([&] { train(guarded, "guarded", with(poison(1000), kFindsJumps)); });
  EXPECT_THAT(message, AllOf(HasSubstr("step 8: the loss jumped to "), HasSubstr("median of the last 4 good steps"),
                             HasSubstr(checkpoint("guarded", 7).string())));
  const HealthRecorder before = run("hand", {}, {}, 7);
  EXPECT_TRUE(tensors("guarded", 7) == tensors("hand", 7));
}

TEST_P(Health, AnInterruptedRunIsTheUninterruptedOne) {
  const std::vector<std::string> settings{poison(1000, {6, 8}), "health.jump=\"rewind\"", "health.norm_jump=50",
                                          "health.window=3"};
  const HealthRecorder whole = run("whole", settings);
  ASSERT_EQ(whole.faults.size(), 2U) << "the second time after the first";
  for (const std::uint64_t stop : {2, 4, 9}) {
    const std::string folder = "stopped-" + std::to_string(stop);
    const HealthRecorder first = run(folder, settings, {}, stop);
    const HealthRecorder second = run(folder, settings, checkpoint(folder, stop));
    EXPECT_EQ(losses(second, stop + 1, 14), losses(whole, stop + 1, 14)) << stop;
    EXPECT_EQ(read_manifest(checkpoint(folder, 14) / kManifestName).run.health,
              read_manifest(checkpoint("whole", 14) / kManifestName).run.health);
    EXPECT_TRUE(tensors(folder, 14) == tensors("whole", 14));
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, Health,
                         ::testing::Values(Stack{"one", "", 1}, Stack{"ddp", R"({plugin="ddp", size=2})"},
                                           Stack{"zero", R"({plugin="zero", size=2, stage=2})"},
                                           Stack{"pipeline", R"({plugin="pipeline", size=2})"},
                                           Stack{"dataparallel", R"({plugin="dataparallel", size=2})"},
                                           Stack{"compress", R"({plugin="compress", size=2, rank=2})"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::host
