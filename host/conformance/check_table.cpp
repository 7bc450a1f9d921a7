#include <algorithm>

#include "conformance/checks.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

using enum PluginKind;

/// The kinds whose objects a run trains with.
const std::vector<PluginKind> kTraining = {strategy, model, optimizer, device, communicator};

std::vector<Check> every_plugin() {
  return {
      {"P01",
       {},
       "The record is complete and fits this host: name, version, licence, ABI, build flavour.",
       "The host refuses the file, or shows a user nothing to judge it by.",
       check_record,
       true},
      {"P02",
       {},
       "The library loads with every symbol and library that it needs.",
       "A run ends with an error of the loader.",
       check_loading,
       true},
      {"P03", {}, "The entry point exists and returns a factory.", "No command can use the plugin.", check_entry, true},
      {"P04",
       {},
       "The factory is that of the kind that the record names.",
       "No command can use the plugin.",
       check_factory_kind,
       true},
      {"P05",
       {},
       "Options have unique names, documentation, and defaults that they accept.",
       "Configurations are refused, or mean something else than the help says.",
       check_options,
       true},
      {"P06",
       {},
       "The plugin creates its object from its defaults.",
       "The shortest configuration does not run.",
       check_creation},
      {"P07",
       {},
       "Unusual values of options are accepted or refused by an OptionError, which names an option.",
       "A typing mistake ends in a crash, or in a message that does not say what to change.",
       check_bad_options},
      {"P08",
       {},
       "Two objects with equal options are equal, and do not change each other.",
       "A run with two of them, or a second run in one process, trains something else.",
       check_independence},
      {"P09",
       {},
       "A small run with the plugin compiles, and its check before the run finds no fault.",
       "Every run ends before its first step.",
       check_small_run},
      {"K01",
       {},
       "Every op is documented and has a reference kernel, and every kernel is for a known op.",
       "A kernel is never used, or an op has no definition to compare with.",
       check_op_definitions},
      {"K02",
       {},
       "The gradient of every op equals finite differences in f64.",
       "Models with the op learn the wrong thing, or nothing.",
       check_op_gradients},
      {"K03",
       {},
       "Every kernel equals the reference kernel up to rounding, in every real type.",
       "A device computes something else than the model says.",
       check_op_kernels},
  };
}

std::vector<Check> of_strategies() {
  return {
      {"S01",
       {strategy},
       "Alone, it trains in f64 as one rank does, and replicas are bitwise equal.",
       "The strategy changes what a model learns.",
       check_strategy_alone},
      {"S02",
       {strategy},
       "Communication of training and evaluation matches on all ranks and cannot deadlock.",
       "A run hangs, or mixes up messages.",
       check_strategy_program},
      {"S03",
       {strategy},
       "Ranks use exactly the memory that was planned.",
       "A run that `strata check` accepts runs out of memory.",
       check_strategy_memory},
      {"S04",
       {strategy},
       "Ranks send exactly the bytes that `strata explain` counts.",
       "A user chooses a stack by wrong numbers.",
       check_strategy_traffic},
      {"S05",
       {strategy},
       "Each value of each option that has few values trains as one rank does, or is refused.",
       "An option changes what a model learns.",
       check_strategy_choices},
      {"S06",
       {strategy},
       "Around each other installed strategy it trains as one rank does, or is refused.",
       "The strategy cannot be combined, or combinations learn something else.",
       check_strategy_around_others},
      {"S07",
       {strategy},
       "Inside of each other installed strategy it trains as one rank does, or is refused.",
       "The strategy cannot be combined, or combinations learn something else.",
       check_strategy_inside_others},
      {"S08",
       {strategy},
       "In f32 it trains as in f64, up to rounding.",
       "Real runs differ from verified ones.",
       check_strategy_in_f32},
  };
}

std::vector<Check> of_models() {
  return {
      {"M01",
       {model},
       "The training step and the evaluation pass compile, with inputs that the dataset has.",
       "Every run ends before its first step.",
       check_model_programs},
      {"M02",
       {model},
       "The gradient of every op in its graph equals finite differences in f64.",
       "The model learns the wrong thing.",
       check_model_gradients},
      {"M03",
       {model},
       "Several micro-batches train as one large batch does.",
       "The batch's division changes what the model learns.",
       check_model_accumulation},
      {"M04",
       {model},
       "With each installed strategy it trains as one rank does, or is refused.",
       "The model cannot be trained in parallel, or learns something else there.",
       check_model_stacks},
      {"M05",
       {model},
       "`shrink` gives a valid model that is no larger and keeps what is asked for.",
       "`strata verify` takes hours, or proves something else.",
       check_model_shrinking},
      {"M06",
       {model},
       "The loss is finite and falls when one random batch is repeated.",
       "The model cannot learn.",
       check_model_learning},
  };
}

std::vector<Check> of_optimizers() {
  return {
      {"O01",
       {optimizer},
       "On one rank its instructions train as its definition does.",
       "The optimizer computes something else than it says.",
       check_optimizer_definition},
      {"O02",
       {optimizer},
       "With each installed strategy it trains as its definition does, or is refused.",
       "Sharded runs learn something else.",
       check_optimizer_stacks},
      {"O03",
       {optimizer},
       "Parameters with fewer elements than ranks, some with one dimension, are trained alike.",
       "Biases and gains of sharded models learn something else.",
       check_optimizer_small_parameters},
      {"O04",
       {optimizer},
       "A run that is resumed from a checkpoint is bitwise equal to one that was not interrupted.",
       "An interrupted run loses what the optimizer has learnt.",
       check_optimizer_resumption},
      {"O05",
       {optimizer},
       "A step whose gradient is not finite changes neither parameters nor states.",
       "One overflow of a 16-bit run destroys the model.",
       check_optimizer_skipped_step},
  };
}

std::vector<Check> of_datasets() {
  return {
      {"D01",
       {dataset},
       "The data opens, has samples for training, and has a fingerprint.",
       "No run can start.",
       check_dataset_opening},
      {"D02",
       {dataset},
       "Inputs are as declared: every element is written, within its range, and nothing else.",
       "Models read rubbish, or memory is destroyed.",
       check_dataset_inputs},
      {"D03",
       {dataset},
       "A sample is the same when it is read again, also after the data was opened again.",
       "Ranks and resumed runs train on other data.",
       check_dataset_repetition},
      {"D04",
       {dataset},
       "A sample does not depend on the order in which samples are read.",
       "Layouts train on other data.",
       check_dataset_order},
      {"D05",
       {dataset},
       "Two threads that read at once get the same samples.",
       "Reading ahead gives other data.",
       check_dataset_threads},
      {"D06",
       {dataset},
       "An input that is read alone has the same values.",
       "A model that ignores an input gets other data.",
       check_dataset_wanted_inputs},
      {"D07",
       {dataset},
       "The fingerprint of the same data is the same.",
       "A checkpoint is refused, although its data is unchanged.",
       check_dataset_fingerprint},
      {"D08",
       {dataset},
       "Validation samples are not those of training.",
       "The validation loss is that of training.",
       check_dataset_splits},
      {"D09",
       {dataset},
       "A path that is absent, a folder or an empty file is refused by an OptionError or opens soundly.",
       "A typing mistake ends in a crash.",
       check_dataset_bad_paths},
  };
}

std::vector<Check> of_communicators() {
  return {
      {"C01",
       {communicator},
       "Every collective, type, reduction and size gives each rank its part.",
       "Ranks compute with wrong numbers.",
       check_collectives},
      {"C02",
       {communicator},
       "Groups may have some of the ranks, in any order.",
       "Meshes of several axes mix up ranks.",
       check_groups},
      {"C03",
       {communicator},
       "Messages arrive unchanged and in order, and sends do not wait for their receive.",
       "Pipelines deadlock or compute with wrong numbers.",
       check_messages},
      {"C04",
       {communicator},
       "Several communications in flight, awaited in any order, give right values.",
       "Overlap gives wrong numbers now and then.",
       check_interleaving},
      {"C05",
       {communicator},
       "Calls that do not mean the same on all ranks, and impossible groups, are errors.",
       "A defect becomes a wrong sum or a hang.",
       check_mismatches},
      {"C06",
       {communicator},
       "An abort at any moment ends every rank with an AbortedError that carries the reason.",
       "One rank's failure hangs all others.",
       check_abort},
      {"C07",
       {communicator},
       "A rank that waits in vain gives up, and names the rank and the communication.",
       "A lost rank hangs the run without a word.",
       check_timeout},
      {"C08",
       {communicator},
       "Each installed strategy trains over it as one rank does, or is refused.",
       "Real runs fail although each collective works.",
       check_communicator_stacks},
  };
}

std::vector<Check> of_devices() {
  return {
      {"V01",
       {device},
       "Memory is aligned and zeroed, copies are exact, and events order streams.",
       "Runs compute with wrong numbers now and then.",
       check_device_memory},
      {"V02",
       {device},
       "Reductions add in the order of their sources, in f32 for short types, also in place.",
       "Layouts give different results, or short types lose their sums.",
       check_device_reductions},
      {"V03",
       {device},
       "Each installed strategy trains on it in f64 as one rank of the reference device, or is refused.",
       "Real runs fail although each kernel works.",
       check_device_stacks},
      {"R01", kTraining, "Two equal runs in f32 are bitwise equal.", "No result can be reproduced.", check_determinism},
  };
}

std::string kinds_text(const Check& check) {
  std::vector<std::string> names;
  for (const PluginKind kind : check.kinds) names.emplace_back(to_string(kind));
  return names.empty() ? "every" : join(names, ", ");
}

}  // namespace

bool Check::applies_to(PluginKind kind) const {
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

const std::vector<Check>& all_checks() {
  static const std::vector<Check> kChecks = [] {
    std::vector<Check> checks;
    for (const auto part :
         {every_plugin, of_strategies, of_models, of_optimizers, of_datasets, of_communicators, of_devices}) {
      std::vector<Check> more = part();
      checks.insert(checks.end(), more.begin(), more.end());
    }
    return checks;
  }();
  return kChecks;
}

std::string checks_markdown() {
  std::string text = "| check | plugins | what is promised | what a user would lose |\n|---|---|---|---|\n";
  for (const Check& check : all_checks()) {
    text += "| " + std::string(check.number) + " | " + kinds_text(check) + " | " + std::string(check.promise) + " | " +
            std::string(check.loss) + " |\n";
  }
  return text;
}

}  // namespace strata::host
