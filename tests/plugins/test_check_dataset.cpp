/// \file
/// `strata check` and `strata train` with datasets that throw, return nothing, or make impossible statements.

#include "check_of_faults.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using ::testing::HasSubstr;

Fault of_dataset(const char* name, const std::string& fault, const std::string& message) {
  return {name, {"data.plugin=faulty_dataset", "data.fault=" + fault}, message};
}

INSTANTIATE_TEST_SUITE_P(
    Datasets, CheckOfFaults,
    ::testing::Values(
        of_dataset("nothing", "nothing",
                   "data: dataset 'faulty_dataset': hook 'open' returned nothing (a null pointer)"),
        of_dataset("open_throws", "open throws",
                   "dataset 'faulty_dataset': hook 'open' threw an exception of type int"),
        of_dataset("inputs_throws", "inputs throws",
                   "dataset 'faulty_dataset': hook 'inputs' threw an exception of type int"),
        of_dataset("wide_input", "wide input", "declares input 'tokens' as f64; accepted: i32, f32"),
        of_dataset("batch_input", "batch input",
                   "declares input 'tokens' with the dimension 'batch'; accepted: dimensions of one sample"),
        of_dataset("twice", "twice the same",
                   "declares input 'targets' twice with the same number of dimensions, 'batch' included"),
        of_dataset("float_input", "float input",
                   "it reads the input 'tokens' as [batch seq]i32; the data has [batch seq]f32"),
        of_dataset("sizes_throws", "sizes throws",
                   "dataset 'faulty_dataset': hook 'sizes' threw an exception of type int"),
        of_dataset("size_zero", "size zero", "found 'vocab' = 0; accepted: sizes of at least 1"),
        of_dataset("another_seq", "another seq",
                   "found 'seq' = 8 from model 'sample_model'; accepted: 9, as dataset 'faulty_dataset' has"),
        of_dataset("no_vocab", "no vocab",
                   "model: dimension 'vocab' has no size: dataset 'faulty_dataset' does not fix it; accepted: a model "
                   "whose options fix it, which those of model 'sample_model' do not"),
        Fault{"option_vocab",
              {"data.plugin=faulty_dataset", "data.fault=no vocab",
               "model={plugin=\"gpt2\", layers=1, heads=1, embed=8, context=8}"},
              "dataset 'faulty_dataset' does not fix it; accepted: a value of model.vocab"},
        of_dataset("samples_throws", "samples throws",
                   "dataset 'faulty_dataset': hook 'samples' threw std::out_of_range: too far"),
        of_dataset("no_samples", "no samples",
                   "found 0 samples for training and 0 for validation; accepted: at least 1")),
    [](const auto& info) { return info.param.name; });

/// Its dimensions have no size.
TEST_F(CommandsBesideSamples, AnInputThatNoModelReadsNeedsNoSize) {
  const std::vector<std::string> overrides = {"data.plugin=faulty_dataset", "data.fault=unread", "run.steps=2"};
  for (const char* command : {"check", "verify"}) {
    const CommandResult result = run(command, overrides);
    EXPECT_EQ(result.exit_code, 0) << command << result.messages;
  }
  const CommandResult trained = run("train", overrides, {"--overwrite"});
  EXPECT_EQ(trained.exit_code, 0) << trained.messages;
}

TEST_F(CommandsBesideSamples, TrainingNamesTheDatasetThatFails) {
  const auto failure = [&](int exit_code, const std::string& fault) {
    const CommandResult result =
        run("train", {"data.plugin=faulty_dataset", "data.fault=" + fault, "run.steps=40"}, {"--overwrite"});
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, exit_code) << result.messages;
    return result.messages;
  };
  EXPECT_THAT(failure(1, "read throws"),
              HasSubstr("the data of step 1 cannot be read: dataset 'faulty_dataset': hook 'read' threw "
                        "std::out_of_range: too far"));
  EXPECT_THAT(
      failure(1, "large token"),
      HasSubstr("dataset 'faulty_dataset' gives input 'tokens' the value 16; expected: at least 0 and below 16"));
  // An epoch has 100 samples, so step 26 is the first of the second one.
  EXPECT_THAT(failure(1, "read fails later"),
              HasSubstr("the data of step 26 cannot be read: dataset 'faulty_dataset': hook 'read': 'disk': found "
                        "nothing; expected data; the run ends with a checkpoint of step 25"));
  EXPECT_THAT(failure(1, "fingerprint throws"), HasSubstr("hook 'fingerprint' threw an exception of type int"));
  EXPECT_THAT(failure(0, "none"), HasSubstr("100 samples"));
}

}  // namespace
}  // namespace strata::host
