/// \file
/// `strata check` with plugins that throw, return nothing, or make impossible objects: one message that names the
/// plugin, the exit code of its class, and JSON if requested.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "check_of_faults.hpp"

namespace strata::host {
namespace {

using nlohmann::json;
using test::CommandResult;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_P(CheckOfFaults, IsOneMessageThatNamesThePlugin) {
  const CommandResult text = run("check", GetParam().overrides);
  EXPECT_EQ(text.signal, 0);
  EXPECT_EQ(text.exit_code, GetParam().exit_code);
  EXPECT_THAT(text.messages, HasSubstr(GetParam().message));
  EXPECT_EQ(std::count(text.messages.begin(), text.messages.end(), '\n'), 1) << text.messages;
  EXPECT_THAT(text.out, IsEmpty());

  const CommandResult printed = run("check", GetParam().overrides, {"--json"});
  EXPECT_EQ(printed.exit_code, GetParam().exit_code);
  const json verdict = json::parse(printed.out, nullptr, false);
  ASSERT_TRUE(verdict.is_object()) << printed.out << printed.messages;
  EXPECT_EQ(verdict.at("ok"), false);
  EXPECT_THAT(verdict.at("error").get<std::string>(), HasSubstr(GetParam().message));
}

Fault of_model(const char* name, const std::string& fault, const std::string& message) {
  return {name, {"model.fault=" + fault}, "model 'sample_model': " + message};
}

Fault defect_of_model(const char* name, const std::string& fault, const std::string& message) {
  Fault defect = of_model(name, fault, message);
  defect.exit_code = 1;
  return defect;
}

Fault of_device(const char* name, const std::string& fault, const std::string& message) {
  return {name, {"device.plugin=faulty_device", "device.fault=" + fault}, message};
}

Fault of_op(const char* name, const std::string& op, const std::string& message, int exit_code) {
  return {name, {"library=[{plugin=\"faulty_ops\"}]", "model.op=" + op}, message, exit_code};
}

Fault of_optimizer(const char* name, const std::string& fault, const std::string& message) {
  return {name,
          {"optimizer.plugin=faulty_optimizer", "optimizer.fault=" + fault},
          "optimizer: optimizer 'faulty_optimizer'" + message};
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, CheckOfFaults,
    ::testing::Values(
        Fault{"betas",
              {"optimizer.betas=[0.5]"},
              "--set optimizer.betas=[0.5]: optimizer.betas: found a list of 1; accepted: a list of 2 numbers"},
        of_optimizer("nothing", "nothing", ": hook 'create' returned nothing (a null pointer)"),
        of_optimizer("states_throws", "states throws", ": hook 'states' threw an exception of type int"),
        of_optimizer("master", "takes the master",
                     " names a state 'master'; accepted: different names without '/', other than 'master' and "
                     "'average'"),
        of_optimizer("twice", "twice the same", " names a state 'mean'; accepted: "),
        of_optimizer("refusal_throws", "refusal throws", ": hook 'refusal' threw std::out_of_range: too far"),
        of_optimizer("refuses", "refuses matrices",
                     " cannot train parameter 'table': it has 2 dimensions; accepted: 1. An "
                     "[[optimizer.group]] can give it another optimizer"),
        of_optimizer("update_throws", "update throws", ": hook 'update' threw an exception of type int"),
        of_optimizer("no_update", "no update", " emits 0 updates of a bucket; accepted: 1"),
        of_optimizer("two_updates", "two updates", " emits 2 updates of a bucket; accepted: 1"),
        of_optimizer("no_op", "no such op", ": there is no op 'descend'"),
        of_optimizer("no_update_op", "no update op", ": op 'accumulate' updates no parameters"),
        of_optimizer("unchanged_state", "unchanged state", " names the state 'mean', which no op of it changes"),
        of_optimizer("unknown_state", "unknown state", ": there is no state 'mean'; the optimizer names []"),
        of_optimizer("shared_with_dims", "shared with dims",
                     " names a state 'mean' with dimensions of its own; accepted: only if wants_own_bucket() is true"),
        of_optimizer("unknown_dims", "unknown dims", " names a state 'mean' of the dimension 'height'; parameter "),
        of_optimizer("no_piece", "no piece", ": buffer %"),
        of_optimizer("whole_of_a_bucket", "whole of a bucket", ": a bucket may hold several parameters"),
        of_optimizer("second_whole", "second whole", ": a second function on whole parameters"),
        of_optimizer("whole_of_another_shape", "whole of another shape",
                     ": the function on the whole parameter returns "),
        of_optimizer("shared_of_whole", "shared of whole",
                     " names a state 'mean' of a whole parameter; accepted: only if wants_own_bucket() is true"),
        of_optimizer("state_of_whole", "state of whole",
                     " names states of whole parameters, but does not call on_whole()"),
        of_optimizer("state_of_whole_unchanged", "state of whole, unchanged",
                     ": the function on the whole parameter does not change the state 'mean'"),
        of_optimizer("state_of_whole_never", "state of whole, never", ": ops every 0 steps; accepted: 1 or more"),
        Fault{"state_of_whole_transient",
              {"optimizer.plugin=faulty_optimizer", "optimizer.fault=state of whole, transient"},
              "after compilation, in steps with step % 2 == 1: program 'training step': task 'epilogue', instruction ",
              1}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Models, CheckOfFaults,
    ::testing::Values(
        of_model("nothing", "nothing", "hook 'create' returned nothing (a null pointer)"),
        of_model("sizes_zero", "sizes zero",
                 "found 'seq' = 0; accepted: sizes of at least 1, of dimensions other than 'batch'"),
        of_model("sizes_batch", "sizes batch",
                 "found 'batch' = 4; accepted: sizes of at least 1, of dimensions other than 'batch'"),
        of_model("sizes_throws", "sizes throws", "hook 'sizes' threw an exception of type int"),
        Fault{"sizes_none",
              {"model.fault=sizes none"},
              "data: dataset 'text': the model fixes no size of 'seq', the tokens of a sample; accepted: a model that "
              "does"},
        Fault{"sizes_vocab",
              {"model.fault=sizes vocab"},
              "model: found 'vocab' = 100 from model 'sample_model'; accepted: at least 256, as dataset 'text' has"},
        of_model("generation_throws", "generation throws", "hook 'generation' threw an exception of type int"),
        of_model("generation_output", "generation output", "it has no output 'scores', which generation reads"),
        of_model("build_throws", "build throws", "hook 'build' threw std::out_of_range: too far"),
        defect_of_model("no_such_value", "no such value",
                        "hook 'build': op activation 'lost': the graph has no node %-1"),
        defect_of_model("block_back", "block back", "hook 'build': block 0 begins after block 1"),
        of_model("another_seq", "another seq", "dimension 'seq' has size 8 already; the model wants 4"),
        of_model("misspelt_input", "misspelt input",
                 "it reads the input 'token'; did you mean 'tokens'?; the data has: positions, targets, tokens"),
        of_model("input_shape", "input shape",
                 "it reads the input 'tokens' as [seq batch]i32; the data has [batch seq]i32"),
        of_model("logits", "logits",
                 "its output 'logits' is [batch seq embed]f32; generation reads [batch seq vocab]")),
    [](const auto& info) { return info.param.name; });

Fault of_parameter(const char* name, const std::string& fault, const std::string& message) {
  return {name, {"model.fault=" + fault}, "after building the model: " + message, 1};
}

INSTANTIATE_TEST_SUITE_P(
    Parameters, CheckOfFaults,
    ::testing::Values(
        of_parameter("without_initializer", "start custom",
                     "the initializer of parameter 'shift' is missing (a null pointer)"),
        of_parameter("constant_nan", "start constant", "parameter 'shift' starts at nan; accepted: a finite number"),
        of_parameter("deviation_nan", "start normal",
                     "parameter 'shift' starts with a standard deviation of nan; accepted: a finite number"),
        of_parameter("nameless", "nameless", "a parameter has no name"),
        of_parameter("state", "named as a state",
                     "parameter 'optimizer/first_moment/table' has a name that begins with 'optimizer/'")),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Devices, CheckOfFaults,
    ::testing::Values(
        of_device("throws", "create", "device 'faulty_device': hook 'create' threw an exception of type int"),
        of_device("nothing", "nothing", "device 'faulty_device': hook 'create' returned nothing (a null pointer)"),
        of_device("memory_throws", "memory_bytes",
                  "device 'faulty_device': hook 'memory_bytes' threw an exception of type int"),
        of_device("support_throws", "unsupported",
                  "device: device 'faulty_device': hook 'unsupported' threw std::out_of_range: too far"),
        of_device("choice_throws", "kernel_choice",
                  "device: device 'faulty_device': hook 'kernel_choice' threw std::out_of_range: too far"),
        of_device("description_throws", "description",
                  "device: device 'faulty_device': hook 'description' threw an exception of type int"),
        of_device("negative_workspace", "workspace_bytes",
                  "device: device 'faulty_device': it asks for -1 bytes of scratch memory for op '")),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Communicators, CheckOfFaults,
    ::testing::Values(Fault{"nothing",
                            {"communicator.plugin=faulty_communicator", "communicator.fault=nothing"},
                            "communicator 'faulty_communicator': hook 'create' returned nothing (a null pointer)"},
                      Fault{"limits_throw",
                            {"communicator.plugin=faulty_communicator", "communicator.fault=limits"},
                            "communicator 'faulty_communicator': hook 'limits' threw an exception of type int"},
                      Fault{"local_ranks_throw",
                            {"communicator.plugin=faulty_communicator", "communicator.fault=local_ranks"},
                            "communicator 'faulty_communicator': hook 'local_ranks' threw an exception of type int"},
                      Fault{"connects_to_nothing",
                            {"communicator.plugin=faulty_communicator"},
                            "the communicator connects rank 0 to nothing (a null pointer)",
                            1},
                      Fault{"connect_throws",
                            {"communicator.plugin=faulty_communicator", "communicator.fault=connect throws"},
                            "communicator 'faulty_communicator': hook 'connect' threw an exception of type int",
                            1},
                      // As nccl refuses a cpu.
                      Fault{"refuses_the_device",
                            {"communicator.plugin=faulty_communicator", "communicator.fault=refuses the device",
                             "device.plugin=faulty_device", "device.fault=none"},
                            "found 'faulty'; accepted: a GPU"},
                      Fault{"refuses_the_device_of_ranks_of_a_process",
                            {"communicator.plugin=faulty_communicator", "communicator.fault=refuses the device",
                             "communicator.threads=2", "device.plugin=faulty_device", "device.fault=none",
                             "strategy=[{plugin=\"ddp\", size=4}]", "batch.micro=1"},
                            "found 'faulty'; accepted: a GPU"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Ops, CheckOfFaults,
    ::testing::Values(
        of_op("of_no_dims", "of_no_dims",
              "op 'of_no_dims' of library 1 'faulty_ops': iteration names the dimensions of 0 operands; node "
              "'of_the_test' has 1",
              1),
        of_op("of_another_rank", "of_another_rank", "iteration() names 2 dimensions of operand 0, which is ", 1),
        Fault{"gradient_of_other_dimensions",
              {"library=[{plugin=\"faulty_ops\", gradient=\"of other dimensions\"}]", "model.op=tripled"},
              "the gradient rule of op 'tripled' gives operand 0, which is [batch seq embed]f32, a gradient "
              "[vocab embed]f32",
              1},
        of_op("without_library", "sextupled", "sextupled", 2)),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Strategies, CheckOfFaults,
    ::testing::Values(
        Fault{"nothing",
              {"strategy=[{plugin=\"faulty\", fault=\"nothing\"}]"},
              "strategy 1 'faulty': hook 'create' returned nothing (a null pointer)"},
        Fault{"number",
              {"strategy=[{plugin=\"faulty\", fault=\"number\"}]"},
              "strategy 1 'faulty': hook 'create' threw an exception of type int"},
        Fault{"without_rtti", {"strategy=[{plugin=\"without_rtti\", size=2}]"}, "refused: it is of the build flavour"},
        Fault{"null_factory", {"strategy=[{plugin=\"null_factory\"}]"}, "strata_plugin_entry returned nothing"},
        Fault{"a_batch_too_large_to_count",
              {"strategy=[{plugin=\"ddp\", size=4}]", "batch.global=4611686018427387904",
               "batch.micro=4611686018427387904"},
              "batch.micro: found 4611686018427387904; times 4 replicas that is too large to count"},
        Fault{"too_many_micro_batches",
              {"batch.global=2097152", "batch.micro=1"},
              "batch.global: found 2097152, which is 2097152 micro-batches; accepted: at most 1048576, with a larger "
              "batch.micro"},
        Fault{"too_many_ranks",
              {"strategy=[{plugin=\"ddp\", size=65536}, {plugin=\"tensor\", size=32}]"},
              "strategy.1: strategy 2 'tensor': the mesh dp=65536 tp=32 has too many ranks; at most 1048576 are "
              "accepted"},
        Fault{"no_op",
              {"strategy=[{plugin=\"faulty\", fault=\"provides no op\"}]"},
              "strategy.0: strategy 1 'faulty' registers an op without a definition"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Configurations, CheckOfFaults,
                         ::testing::Values(Fault{"no_data", {"data.path=/nowhere"}, "'/nowhere': cannot be opened"},
                                           Fault{"no_number", {"run.steps=many"}, "run.steps"},
                                           Fault{"no_such_key", {"run.colour=1"}, "colour"},
                                           Fault{"no_toml", {"strategy=[{"}, "strategy"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::host
