// Writes the adapters of a checkpoint in PEFT's format. Usage: strata_write_peft CHECKPOINT FOLDER PLUGINS

#include <iostream>
#include <map>
#include <string>

#include "generate/text_generation.hpp"
#include "huggingface/peft_adapters.hpp"
#include "runtime/tensor_part.hpp"

namespace {

using namespace strata;
using namespace strata::host;

void write(const std::string& checkpoint, const std::string& folder, const std::string& plugins) {
  const CheckpointReader reader(checkpoint);
  PluginRegistry registry({plugins});
  const RunSetup setup = prepare(one_rank_configuration(reader, {}, registry), registry);
  const DimSizes sizes = setup.sizes(reader.run().data->sizes);
  const Graph graph = forward_graph(setup.request(GraphMode::evaluation, sizes));
  const LowRankTerms terms(graph);
  std::map<std::string, HuggingFacePlace> published;
  for (const LowRankTerm& term : terms.terms()) published[term.parameter] = {term.parameter};
  const ReadParameter read = [&](const std::string& name, std::span<float> values) {
    std::vector<IndexMap> dims;
    for (const std::int64_t size : graph.shape(graph.find_parameter(name)->value)) {
      dims.push_back(IndexMap::whole(size));
    }
    reader.read(name, TensorPart::block(dims), DType::f32, values.data());
  };
  write_peft_adapters(folder, {terms, read, published, ""});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    write(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
