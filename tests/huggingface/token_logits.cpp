/// Computes the logits of a checkpoint's model. Usage: strata_token_logits CHECKPOINT TOKENS LOGITS [KEY=VALUE...].
/// TOKENS is a file of int32 with one sequence of the model's context, LOGITS becomes a file of float32. An input NAME
/// has the values of the file TOKENS.NAME if there is one, images those of float32. The keys override those of the
/// checkpoint's configuration.

#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "build_paths.hpp"
#include "generate/text_generation.hpp"
#include "runtime/executor.hpp"
#include "runtime/initialize.hpp"
#include "runtime/rank_threads.hpp"
#include "strata/error.hpp"

namespace {

using namespace strata;
using namespace strata::host;

class WholeSequence final : public InputSource {
 public:
  explicit WholeSequence(std::string path) : path_(std::move(path)) {}

  void load(const InputPart& part, std::uint64_t /*step*/) override {
    const std::optional<std::vector<char>> own = read(path_ + "." + part.name);
    if (is_floating_point(part.dtype)) {
      if (!own) throw RuntimeError("there is no file '" + path_ + "." + part.name + "'");
      std::memcpy(part.destination, own->data(), own->size());  // one rank has the whole sample
      return;
    }
    const std::optional<std::vector<char>> values = own || part.name != "tokens" ? own : read(path_);
    const auto* given = values ? reinterpret_cast<const std::int32_t*>(values->data()) : nullptr;
    auto* destination = reinterpret_cast<std::int32_t*>(part.destination);
    for (const IndexSegment& run : part.dims.back().segments) {
      for (std::int64_t i = 0; i < run.length; ++i) {
        const std::int64_t position = run.global_begin + i;
        destination[run.local_begin + i] =
            given != nullptr ? given[position] : static_cast<std::int32_t>(part.name == "positions" ? position : 0);
      }
    }
  }

 private:
  static std::optional<std::vector<char>> read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    return std::vector<char>(std::istreambuf_iterator<char>(file), {});
  }

  std::string path_;
};

void write_logits(const std::string& checkpoint_path, const std::string& tokens_path, const std::string& logits_path,
                  const std::vector<std::string>& overrides) {
  PluginRegistry registry({plugin_folder()});
  const CheckpointReader checkpoint(find_checkpoint(checkpoint_path));
  RunConfiguration configuration = one_rank_configuration(checkpoint, overrides, registry);
  configuration.batch = {1, 1};
  const RunSetup setup = prepare(std::move(configuration), registry);
  const DimSizes sizes = setup.sizes_without_data();
  const std::unique_ptr<World> world = setup.make_world();
  WholeSequence tokens(tokens_path);
  run_rank_threads(
      *world, [&](int rank) { return setup.make_device(rank, 1); },
      [&](Device& device, Communicator& communicator) {
        CompileRequest request = setup.request(GraphMode::evaluation, sizes);
        request.outputs = {"logits"};
        request.device = &device;
        const Compiled compiled = setup.compile(request);
        const Program& program = compiled.program(0);
        const BufferId output = program.reports.at("logits");
        const auto arena = std::make_shared<Arena>(device, compiled.plan(0).arena_bytes);
        Executor executor(program, compiled.plan(0), 0, setup.seed(), device, communicator, arena);
        initialize_constants(executor, setup.seed());
        checkpoint.restore(program, 0,
                           [&](const BufferSlice& slice, const void* host) { executor.write(slice, host); });
        std::vector<char> logits(static_cast<std::size_t>(program.buffer(output).bytes()));
        (void)executor.run(0, 0, tokens);
        executor.read(output, reinterpret_cast<std::byte*>(logits.data()));
        std::ofstream(logits_path, std::ios::binary).write(logits.data(), std::ssize(logits));
      });
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return 2;
  try {
    write_logits(arguments[1], arguments[2], arguments[3], {arguments + 4, arguments + count});
    return 0;
  } catch (const strata::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
