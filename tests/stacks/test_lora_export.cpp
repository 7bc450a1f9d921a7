#include <gmock/gmock.h>

#include <cstring>

#include "checkpoint/safetensors.hpp"
#include "files/file_io.hpp"
#include "huggingface/peft_adapters.hpp"
#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "stack_row.hpp"
#include "train/temporary_folder.hpp"
#include "verify/definition.hpp"
#include "verify/random_inputs.hpp"

namespace strata::testing {
namespace {

using host::ParameterValues;

/// A small model of which the embedding is the head too, with grouped queries.
host::RunConfiguration tied_llama(const std::string& strategies) {
  host::RunConfiguration configuration = small_gpt2(strategies, 4, 2);
  configuration.model = {"model",
                         "llama",
                         {{"layers", std::int64_t{2}},
                          {"heads", std::int64_t{4}},
                          {"kv_heads", std::int64_t{2}},
                          {"embed", std::int64_t{16}},
                          {"ffn", std::int64_t{24}},
                          {"context", std::int64_t{8}},
                          {"vocab", std::int64_t{16}},
                          {"tied", std::string("yes")}}};
  return configuration;
}

struct TrainedModel {
  Graph graph;
  /// Losses of the steps.
  std::vector<double> losses;
  /// Values after them.
  ParameterValues values;
};

/// Trains on one rank in f64. `begin`: initial values of some parameters.
TrainedModel train_from(const std::string& strategies, const ParameterValues& begin, int steps) {
  BuiltPlugins plugins;
  const host::RunSetup setup = host::prepare(tied_llama(strategies), plugins);
  const std::unique_ptr<Device> device = setup.make_device(0, 1);
  host::CompileRequest request = setup.request(GraphMode::training, setup.sizes_without_data());
  request.float_type = DType::f64;
  request.device = device.get();
  const host::Compiled compiled = setup.compile(request);
  host::RandomInputs inputs(setup.seed(), setup.inputs, setup.sizes_without_data());
  TrainedModel model;
  model.graph = host::forward_graph(request);
  const std::unique_ptr<World> world = setup.make_world();
  host::run_rank_threads(
      *world, [&](int rank) -> std::shared_ptr<Device> { return setup.make_device(rank, 1); },
      [&](Device& of_rank, Communicator& communicator) {
        const auto arena = std::make_shared<host::Arena>(of_rank, compiled.plan(0).arena_bytes);
        host::Executor executor(compiled.program(0), compiled.plan(0), 0, setup.seed(), of_rank, communicator, arena);
        host::initialize(executor, setup.seed());
        for (const StoredParameter& parameter : compiled.program(0).parameters) {
          const auto values = begin.find(parameter.name);
          if (values != begin.end()) host::write_values(executor, parameter.value, values->second);
        }
        for (int step = 0; step < steps; ++step) {
          StepContext context;
          context.learning_rate = 1e-2;
          const host::Reports reports = executor.run(context, inputs);
          model.losses.push_back(reports.at("loss") / reports.at("count"));
        }
        for (const StoredParameter& parameter : compiled.program(0).parameters) {
          model.values[parameter.name] = host::read_values(executor, parameter.value);
        }
      });
  return model;
}

TEST(LoraExport, MergedValuesComputeWhatTheAdaptersDo) {
  const std::string lora = table(
      "lora", "rank = 3\nalpha = 30.0\ntargets = [\"*_proj.weight\", \"*embed_tokens*\"]\ntrain = [\"*norm*\"]\n");
  const TrainedModel trained = train_from(lora, {}, 4);
  const double expected = train_from(lora, trained.values, 1).losses.front();

  const host::LowRankTerms terms(trained.graph);
  const host::ReadParameter read = [&](const std::string& name, std::span<float> values) {
    std::copy(trained.values.at(name).begin(), trained.values.at(name).end(), values.begin());
  };
  ParameterValues merged;
  for (const auto& [name, values] : trained.values) {
    if (terms.is_factor(name)) continue;
    std::vector<float> single(values.begin(), values.end());
    terms.merge(name, single, read);
    merged[name].assign(single.begin(), single.end());
  }
  EXPECT_EQ(merged.size() + 2 * terms.terms().size(), trained.values.size());
  EXPECT_NEAR(train_from("", merged, 1).losses.front(), expected, 1e-6);
  // The adapters have learned something.
  ParameterValues base = trained.values;
  EXPECT_GT(std::abs(train_from("", base, 1).losses.front() - expected), 1e-3);
}

/// GPT-2 publishes queries, keys and values as one tensor, for which PEFT has one adapter.
TEST(LoraExport, JoinsTheAdaptersOfPartsOfATensor) {
  Graph graph;
  graph.sizes = {{"in", 2}, {"out", 2}, {"rank", 1}};
  for (const std::string part : {"q", "v"}) {
    const std::vector<std::pair<std::string, Dims>> names{
        {part, {"in", "out"}}, {part + ".a", {"in", "rank"}}, {part + ".b", {"rank", "out"}}};
    for (const auto& [name, dims] : names) {
      Node node;
      node.op = "parameter";
      node.name = name;
      node.results = {{dims, DType::f32}};
      Parameter parameter;
      parameter.name = name;
      parameter.value = {graph.append(std::move(node)), 0};
      parameter.role = name == part ? ParameterRole::frozen : ParameterRole::trained;
      graph.parameters.push_back(std::move(parameter));
    }
    graph.low_rank_terms.push_back({part, part + ".a", part + ".b", "rank", 2});
  }
  const std::map<std::string, std::vector<float>> values{
      {"q.a", {1, 2}}, {"q.b", {3, 4}}, {"v.a", {5, 6}}, {"v.b", {7, 8}}};
  const host::LowRankTerms terms(graph);
  const host::ReadParameter read = [&](const std::string& name, std::span<float> of) {
    std::copy(values.at(name).begin(), values.at(name).end(), of.begin());
  };
  host::test::TemporaryFolder folder;
  // The outputs 2 and 3 are those of the keys, which have no adapters.
  host::write_peft_adapters(folder.path(),
                            {terms, read, {{"q", {"c_attn.weight", 0, 6}}, {"v", {"c_attn.weight", 4, 6}}}, ""});
  const host::SafetensorsFile file(folder.path() / "adapter_model.safetensors");
  const auto tensor = [&](const std::string& side) {
    const auto& entry = file.tensors().at("base_model.model.c_attn.lora_" + side + ".weight");
    std::vector<float> elements(entry.data.size() / sizeof(float));
    std::memcpy(elements.data(), entry.data.data(), entry.data.size());
    return elements;
  };
  EXPECT_THAT(tensor("A"), ::testing::ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(tensor("B"), ::testing::ElementsAre(3, 0, 4, 0, 0, 0, 0, 0, 0, 7, 0, 8));
  const std::string config = host::read_small_file(folder.path() / "adapter_config.json", 4096);
  EXPECT_THAT(config, ::testing::HasSubstr("\"r\": 2,"));
  EXPECT_THAT(config, ::testing::HasSubstr("\"lora_alpha\": 4.0,"));
}

}  // namespace
}  // namespace strata::testing
