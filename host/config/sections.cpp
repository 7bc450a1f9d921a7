#include "config/sections.hpp"

#include <utility>

#include "config/section_keys.hpp"

namespace strata::host {
namespace {

SectionDeclaration run_section() {
  const Keys<RunSection> run([](RunConfiguration& c, std::size_t) -> RunSection& { return c.run; });
  return {
      .path = "run",
      .documentation = "The run: its length, its seed and its output.",
      .keys = {
          run.key(&RunSection::name, "name",
                  "Name of the run in messages and logs, and of its folder in runs/: no slash, no control "
                  "character, no dot at its beginning."),
          run.key(&RunSection::steps, "steps",
                  "Optimizer steps of the run, and the length of its schedules. A resumed run counts "
                  "the steps before its checkpoint.",
                  {.minimum = 1}),
          run.key(&RunSection::stop_at_step, "stop_at_step",
                  "The run ends after this step, and its schedules keep the length run.steps; 0 "
                  "means run.steps. --steps sets it.",
                  {.minimum = 0}),
          run.key(&RunSection::seed, "seed",
                  "Seed of initialisation, dropout and the order of the data, the same for every layout.",
                  {.minimum = 0}),
          run.key(&RunSection::output, "output",
                  "Folder for checkpoints and offload files, created if missing. Empty means runs/ "
                  "and the run's name."),
          run.key(&RunSection::checkpoint_every, "checkpoint_every",
                  "Steps between checkpoints; 0 writes one at the end only.", {.minimum = 0}),
          run.key(&RunSection::keep_checkpoints, "keep_checkpoints",
                  "How many of the newest checkpoints to keep; 0 keeps all.", {.minimum = 0, .maximum = 1000000}),
          run.key(&RunSection::checkpoint_mode, "checkpoint_mode",
                  "Whether training goes on while a checkpoint is written, from a copy in host "
                  "memory, or waits."),
          run.key(&RunSection::eval_every, "eval_every",
                  "Steps between evaluations on the validation split; 0 never evaluates.", {.minimum = 0}),
          run.key(&RunSection::eval_batches, "eval_batches",
                  "Global batches of one evaluation; 0 uses the whole validation split.", {.minimum = 0}),
          run.key(&RunSection::log_every, "log_every", "Steps between progress lines if the output is not a terminal.",
                  {.minimum = 1, .may_differ = true}),
          run.key(&RunSection::data_threads, "data_threads",
                  "Threads of each process that read and decode samples ahead of the steps; 0 uses half of the "
                  "process's cores.",
                  {.minimum = 0, .maximum = 1024, .may_differ = true}),
          run.key(&RunSection::resume, "resume",
                  "What the run continues from: \"auto\" starts the run or continues its newest whole checkpoint, "
                  "a folder is a checkpoint or a run's output. Empty starts anew.",
                  {.may_differ = true}),
          run.key(&RunSection::accept_changed, "accept_changed",
                  "Settings in which a resumed run may differ from its checkpoint: seed, batch, model, data."),
          run.key(&RunSection::stop_after, "stop_after",
                  "Time after which the run writes a checkpoint and ends with exit code 75, such as "
                  "\"3h50m\". Empty: none.",
                  {.may_differ = true}),
          run.key(&RunSection::stop_before_job_end, "stop_before_job_end",
                  "How long before the end of its Slurm job the run stops likewise, such as \"10m\".",
                  {.may_differ = true}),
          run.key(&RunSection::watchdog, "watchdog",
                  "Seconds after which a rank that does not get on is named, with what it does, and "
                  "a hook of a plugin that does not end; 0 watches none.",
                  {.minimum = 0, .may_differ = true}),
          run.key(&RunSection::stop_grace, "stop_grace",
                  "Seconds after which a run that was asked to stop fails, if none of its ranks gets "
                  "on; 0 waits without a limit.",
                  {.minimum = 0, .may_differ = true}),
      }};
}

SectionDeclaration shrink_section() {
  const Keys<ShrinkSection> shrink([](RunConfiguration& c, std::size_t) -> ShrinkSection& { return c.run.shrink; });
  return {.path = "run.shrink",
          .documentation =
              "How `strata launch --hosts --max-restarts` continues on the hosts that are left, with fewer ranks along "
              "one axis of the mesh. The global batch stays. "
              "`shrink = { axis = \"dp\", min = 2 }` is an example.",
          .keys = {shrink.key(&ShrinkSection::axis, "axis",
                              "Name of the axis. Its strategy's option `size` must be its number of ranks. "
                              "Empty: the run needs all its ranks."),
                   shrink.key(&ShrinkSection::min, "min", "Smallest number of ranks along the axis.", {.minimum = 1})}};
}

SectionDeclaration model_section() {
  const Keys<RunConfiguration> whole([](RunConfiguration& c, std::size_t) -> RunConfiguration& { return c; });
  const auto plugin = [](RunConfiguration& c, std::size_t) -> PluginSection& { return c.model; };
  return {.path = "model",
          .documentation = "The model.",
          .keys = {plugin_key(plugin, "",
                              "Name of the model plugin, as `strata plugins list` shows it. It may be missing if "
                              "`from` is set."),
                   whole.key(&RunConfiguration::model_from, "from",
                             "A checkpoint, the output folder of a run for its last one, or a folder of Hugging "
                             "Face, from whose values training starts. The plugin and its options are those of "
                             "the checkpoint, except for options that are set. Empty: random values.")},
          .plugin = plugin};
}

SectionDeclaration data_section() {
  const Keys<DataSection> data([](RunConfiguration& c, std::size_t) -> DataSection& { return c.data; });
  const auto plugin = [](RunConfiguration& c, std::size_t) -> PluginSection& { return c.data.dataset; };
  return {.path = "data",
          .documentation = "The data that the model is trained on.",
          .keys = {plugin_key(plugin, "text", "Name of the dataset plugin."),
                   data.key(&DataSection::allow_changed, "allow_changed",
                            "Let a run continue from a checkpoint although the "
                            "content of the data has changed.")},
          .plugin = plugin};
}

SectionDeclaration batch_section() {
  const Keys<BatchSection> batch([](RunConfiguration& c, std::size_t) -> BatchSection& { return c.batch; });
  return {
      .path = "batch",
      .documentation = "Batch sizes. A step has global / (micro · replicas) micro-batches on each replica.",
      .keys = {batch.required(&BatchSection::global, "global",
                              "Samples of a step over all ranks: a multiple of micro times the number of replicas.",
                              {.minimum = 1}),
               batch.key(&BatchSection::micro, "micro", "Samples of one micro-batch on one replica.", {.minimum = 1})}};
}

SectionDeclaration optimizer_section() {
  const Keys<OptimizerSection> optimizer(
      [](RunConfiguration& c, std::size_t) -> OptimizerSection& { return c.optimizer; });
  const auto plugin = [](RunConfiguration& c, std::size_t) -> PluginSection& { return c.optimizer.optimizer; };
  return {.path = "optimizer",
          .documentation = "The optimizer, which updates the parameters.",
          .keys = {plugin_key(plugin, "adamw", "Name of the optimizer plugin."),
                   optimizer.key(&OptimizerSection::lr, "lr", "Learning rate; with a schedule, its highest value.",
                                 {.minimum = 0}),
                   optimizer.key(&OptimizerSection::weight_decay, "weight_decay",
                                 "Decoupled weight decay of matrices. Vectors, such as biases and norm "
                                 "weights, never decay.",
                                 {.minimum = 0}),
                   optimizer.key(&OptimizerSection::clip, "clip",
                                 "Gradients are scaled down to this global norm if theirs is larger; 0 "
                                 "turns clipping off.",
                                 {.minimum = 0}),
                   optimizer.key(&OptimizerSection::clip_value, "clip_value",
                                 "Each element of the gradients is then limited to this magnitude; 0 "
                                 "turns this off.",
                                 {.minimum = 0})},
          .plugin = plugin};
}

SectionDeclaration group_section() {
  using Group = OptimizerGroupSection;
  const Keys<Group> group(
      [](RunConfiguration& c, std::size_t table) -> Group& { return table_of(c.optimizer.groups, table); });
  const auto plugin = [](RunConfiguration& c, std::size_t table) -> PluginSection& {
    return table_of(c.optimizer.groups, table).optimizer;
  };
  return {
      .path = "optimizer.group",
      .documentation =
          "Parameters that are updated in another way than `[optimizer]` says. A parameter belongs to the "
          "first group that names it.",
      .keys = {group.required(&Group::parameters, "parameters",
                              "Names of parameters. `*` stands for any text, `?` for one character, "
                              "`[a-z]` for one of several: \"h.*.weight\"."),
               group.key(&Group::lr_factor, "lr_factor", "Factor of the learning rate.", {.minimum = 0}),
               group.key(&Group::weight_decay_factor, "weight_decay_factor",
                         "Factor of the weight decay; 0 turns it off.", {.minimum = 0}),
               group.key(&Group::frozen, "frozen", "Keep the initial values: no gradients, no states."),
               plugin_key(plugin, "",
                          "Name of another optimizer plugin for these parameters. Empty means that of `[optimizer]`, "
                          "with its options.")},
      .plugin = plugin,
      .count = [](const RunConfiguration& c) { return c.optimizer.groups.size(); }};
}

/// One note per kind of schedule, with an example.
std::vector<std::string> schedule_notes() {
  std::vector<std::string> notes;
  for (const ScheduleKind& kind : schedule_kinds()) {
    std::string keys;
    for (const std::string_view key : kind.keys) keys += (keys.empty() ? " Reads `" : ", `") + std::string(key) + "`";
    notes.push_back("`" + std::string(kind.name) + "`: " + std::string(kind.documentation) + keys +
                    (keys.empty() ? "" : ".") + " Example: `schedule = { " + std::string(kind.example) + " }`");
  }
  return notes;
}

/// The keys of a schedule. `minimum`: the key of its smallest value, which it begins or ends at.
std::vector<Key> schedule_keys(const Keys<ScheduleSection>& schedule, Key minimum) {
  Key kind = schedule.key(&ScheduleSection::kind, "kind", "Shape of the schedule; each is described below.");
  for (const ScheduleKind& each : schedule_kinds()) kind.option.choices.emplace_back(each.name);
  const std::string warmup =
      "Steps of the warm-up. The kind warmup rises from " + minimum.option.name +
      " and has lr at the first step after them. The kinds that decay rise from 0 and have lr at the last of them: "
      "step 0 of a linear warm-up has lr / warmup. constant and points have no warm-up.";
  return {
      std::move(kind),
      schedule.key(&ScheduleSection::warmup, "warmup", warmup, {.minimum = 0}),
      schedule.key(&ScheduleSection::warmup_type, "warmup_type",
                   "How the learning rate rises in the warm-up: with the step, or with its logarithm."),
      std::move(minimum),
      schedule.key(&ScheduleSection::decay, "decay",
                   "Steps at the end of the run over which wsd decays, from 1 to run.steps - warmup.", {.minimum = 0}),
      schedule.key(&ScheduleSection::power, "power",
                   "Exponent of polynomial. 1 is a straight line; a larger one falls faster at first.",
                   {.minimum = 0.001}),
      schedule.key(&ScheduleSection::steps, "steps", "Steps of the curve of the kind points, strictly ascending.",
                   {.minimum = 0}),
      schedule.key(&ScheduleSection::factors, "factors", "Shares of lr at those steps, one for each.",
                   {.minimum = 0, .maximum = 1})};
}

SectionDeclaration schedule_section() {
  const Keys<ScheduleSection> schedule(
      [](RunConfiguration& c, std::size_t) -> ScheduleSection& { return c.optimizer.schedule; });
  return {.path = "optimizer.schedule",
          .documentation =
              "The schedule of the learning rate over the steps of the run, which are counted from 0. A kind ignores "
              "keys that it does not read. Warm-up and decay must fit into run.steps, unless --set gives it. `--steps "
              "10` runs the first 10 steps of a schedule. After run.steps a decay stays at its end.",
          .keys = schedule_keys(
              schedule, schedule.key(&ScheduleSection::min_lr, kMinLearningRate,
                                     "Learning rate at which the kind warmup begins and a decay ends; at most lr.",
                                     {.minimum = 0})),
          .notes = schedule_notes()};
}

SectionDeclaration weight_decay_schedule_section() {
  const Keys<ScheduleSection> schedule(
      [](RunConfiguration& c, std::size_t) -> ScheduleSection& { return c.optimizer.weight_decay_schedule; });
  return {.path = "optimizer.weight_decay_schedule",
          .documentation =
              "The schedule of a factor of all weight decays. It has the kinds of [optimizer.schedule]; where these "
              "speak of lr, the factor is 1. `weight_decay_schedule = { kind = \"linear\", min_factor = 0.1 }` is an "
              "example.",
          .keys = schedule_keys(schedule, schedule.key(&ScheduleSection::min_lr, kMinFactor,
                                                       "Factor at which the kind warmup begins and a decay ends.",
                                                       {.minimum = 0, .maximum = 1}))};
}

SectionDeclaration average_section() {
  const Keys<AverageSection> average(
      [](RunConfiguration& c, std::size_t) -> AverageSection& { return c.optimizer.average; });
  return {.path = "optimizer.average",
          .documentation =
              "An exponential moving average of the trained weights, which checkpoints contain. After every step it "
              "becomes decay · average + (1 - decay) · weights. It begins as the initial weights, whose share after n "
              "steps is decay^n. `average = { decay = 0.99 }` is an example.",
          .keys = {average.key(&AverageSection::decay, "decay",
                               "Share of the average that a step keeps; below 1. 0 keeps no average.",
                               {.minimum = 0, .maximum = 1}),
                   average.key(&AverageSection::evaluate, "evaluate",
                               "Whether evaluations read the average, if there is one, instead of the trained "
                               "weights.")}};
}

SectionDeclaration health_section() {
  const Keys<HealthSection> health([](RunConfiguration& c, std::size_t) -> HealthSection& { return c.health; });
  return {
      .path = "health",
      .documentation =
          "What the run does about a bad step: one whose loss or gradient norm is not finite, or jumps. `stop` ends "
          "the run with exit code 1. `skip` leaves out the update of the step. `rewind` goes back to the newest "
          "checkpoint before the step and leaves out the data up to that step. A step that loss scaling skips is not a "
          "bad one.",
      .keys = {
          health.key(&HealthSection::not_finite, "not_finite",
                     "What to do if the loss or the gradient norm is not finite."),
          health.key(&HealthSection::jump, "jump", "What to do if the loss or the gradient norm jumps."),
          health.key(&HealthSection::loss_jump, "loss_jump",
                     "The loss jumps if it exceeds this factor times its median of the last steps; 0: never.",
                     {.minimum = 0, .maximum = 1e6}),
          health.key(&HealthSection::norm_jump, "norm_jump",
                     "The gradient norm jumps if it exceeds this factor times its median of the last steps; 0: never.",
                     {.minimum = 0, .maximum = 1e6}),
          health.key(&HealthSection::window, "window",
                     "Number of good steps of which the medians are. Before that many, nothing jumps.",
                     {.minimum = 2, .maximum = 10000}),
          health.key(&HealthSection::max_skips, "max_skips",
                     "Number of steps in a row that may be skipped. The next bad one ends the run.", {.minimum = 1}),
          health.key(&HealthSection::max_rewinds, "max_rewinds",
                     "How many times the run may go back. The next time ends the run.", {.minimum = 1})}};
}

SectionDeclaration log_section() {
  const Keys<LogSection> log([](RunConfiguration& c, std::size_t) -> LogSection& { return c.log; });
  return {
      .path = "log",
      .documentation = "What the run writes about its steps, besides the log of `--log-json`.",
      .keys = {
          log.key(&LogSection::tensorboard, "tensorboard", "Write event files for TensorBoard to the output folder."),
          log.key(&LogSection::norm_groups, "norm_groups",
                  "Parameters whose gradient norm is logged apart, beside the global norm: those of each layer, or "
                  "of each `[[optimizer.group]]`. auto means layer with tensorboard, else none."),
          log.key(&LogSection::peak_tflops, "peak_tflops",
                  "Peak rate of one rank's device in 10^12 FLOP/s, of which the model FLOPs utilisation is a "
                  "share. 0: with tensorboard, the rate of a matrix product, measured at the start.",
                  {.minimum = 0, .may_differ = true}),
          log.key(&LogSection::metrics, "metrics",
                  "File that is replaced at most once a second with the run's numbers, in the text format of "
                  "Prometheus: step, loss, speed, memory, last checkpoint, restarts. Empty: none.",
                  {.may_differ = true}),
          log.key(&LogSection::heartbeat, "heartbeat",
                  "File that is replaced at most once a second with the time and the step of the last progress. "
                  "Empty: none.",
                  {.may_differ = true})}};
}

SectionDeclaration device_section() {
  const auto plugin = [](RunConfiguration& c, std::size_t) -> PluginSection& { return c.device; };
  return {.path = "device",
          .documentation = "The device that computes.",
          .keys = {plugin_key(plugin, "cpu", "Name of the device plugin.")},
          .plugin = plugin};
}

SectionDeclaration communicator_section() {
  const auto plugin = [](RunConfiguration& c, std::size_t) -> PluginSection& { return c.communicator; };
  return {.path = "communicator",
          .documentation = "The communicator that carries data between ranks.",
          .keys = {plugin_key(plugin, "local", "Name of the communicator plugin.")},
          .plugin = plugin};
}

SectionDeclaration strategy_section() {
  const auto plugin = [](RunConfiguration& c, std::size_t table) -> PluginSection& {
    return table_of(c.strategies, table);
  };
  return {.path = "strategy",
          .documentation =
              "A strategy, such as a parallelism: one table each, outermost mesh axis first. Without any, the run has "
              "one rank.",
          .keys = {plugin_key(plugin, std::nullopt, "Name of the strategy plugin.")},
          .plugin = plugin,
          .count = [](const RunConfiguration& c) { return c.strategies.size(); }};
}

SectionDeclaration library_section() {
  const auto plugin = [](RunConfiguration& c, std::size_t table) -> PluginSection& {
    return table_of(c.libraries, table);
  };
  return {
      .path = "library",
      .documentation = "A plugin that adds ops and kernels, such as a faster kernel for a known op: one table each.",
      .keys = {plugin_key(plugin, std::nullopt, "Name of the library plugin.")},
      .plugin = plugin,
      .count = [](const RunConfiguration& c) { return c.libraries.size(); }};
}

}  // namespace

std::string action_word(HealthAction action) { return std::get<std::string>(to_option(action)); }

const std::vector<SectionDeclaration>& section_declarations() {
  static const std::vector<SectionDeclaration> declarations = [] {
    std::vector<SectionDeclaration> all = {
        run_section(),     shrink_section(),       model_section(),    data_section(),
        batch_section(),   optimizer_section(),    schedule_section(), weight_decay_schedule_section(),
        average_section(), group_section(),        health_section(),   log_section(),
        device_section(),  communicator_section(), strategy_section(), library_section()};
    for (SectionDeclaration& each : all) {
      std::vector<OptionSpecification> options;
      for (const Key& key : each.keys) options.push_back(key.option);
      each.schema = OptionSchema(std::move(options));
    }
    return all;
  }();
  return declarations;
}

}  // namespace strata::host
