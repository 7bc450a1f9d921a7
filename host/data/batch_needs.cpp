#include "data/batch_needs.hpp"

#include "data/data_source.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

class NeedsCollector {
 public:
  explicit NeedsCollector(const std::vector<DatasetInput>& inputs) : inputs_(inputs), wanted_(inputs.size()) {}

  void add(const Program& program, int rank) {
    const Coordinates coordinates = program.mesh.coordinates(rank);
    for (const Task& task : program.tasks) {
      for (const Instruction& instruction : task.instructions) {
        const auto* load = instruction.as<LoadInput>();
        if (load == nullptr) continue;
        const auto input = find_input(inputs_, instruction.name, load->dims.size());
        if (!input) throw VerificationError("the program loads '" + instruction.name + "', which the dataset lacks");
        wanted_[*input] = true;
        if (inputs_[*input].per_sample) add_samples(program, load->dims.front(), coordinates);
      }
    }
  }

  [[nodiscard]] BatchNeeds take() const {
    BatchNeeds needs{wanted_, {}};
    for (std::size_t sample = 0; sample < samples_.size(); ++sample) {
      if (samples_[sample]) needs.samples.push_back(static_cast<std::int64_t>(sample));
    }
    return needs;
  }

 private:
  void add_samples(const Program& program, const ShardedDim& batch, const Coordinates& coordinates) {
    const IndexMap map = index_map(batch, program.mesh, coordinates);
    samples_.resize(static_cast<std::size_t>(map.global_size * program.micro_batches));
    for (std::int64_t micro_batch = 0; micro_batch < program.micro_batches; ++micro_batch) {
      for (std::int64_t i = 0; i < map.local_size(); ++i) {
        samples_[static_cast<std::size_t>(micro_batch * map.global_size + map.global_index(i))] = true;
      }
    }
  }

  const std::vector<DatasetInput>& inputs_;
  std::vector<bool> wanted_;
  std::vector<bool> samples_;
};

}  // namespace

BatchNeeds batch_needs(const Compiled& compiled, const std::vector<int>& ranks,
                       const std::vector<DatasetInput>& inputs) {
  NeedsCollector collector(inputs);
  for (const int rank : ranks) collector.add(compiled.program(rank), rank);
  return collector.take();
}

}  // namespace strata::host
