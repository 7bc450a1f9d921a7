#include "chaos/settings.hpp"

#include <fstream>

namespace strata::testing::chaos {
namespace {

namespace fs = std::filesystem;

/// A text with some structure, long enough for several epochs of a small context.
std::string training_text() {
  std::string text;
  for (int i = 0; i < 120; ++i) text += "line " + std::to_string(i * i % 97) + " of the text\n";
  return text;
}

}  // namespace

fs::path write_configuration(const fs::path& folder, const Stack& stack) {
  std::ofstream(folder / "text.txt") << training_text();
  const fs::path path = folder / "run.toml";
  std::ofstream(path) << "[run]\nsteps = " << stack.steps << R"(
seed = 11
eval_batches = 2
log_every = 1
[model]
plugin = "gpt2"
layers = 2
heads = 2
embed = 16
context = 8
dropout = 0.1
[data]
path = ")" << (folder / "text.txt").string()
                      << R"("
validation = 0.1
[batch]
global = 12
micro = )" << stack.micro
                      << R"(
[optimizer]
lr = 1e-2
weight_decay = 0.1
clip = 0.5
schedule = { kind = "warmup_cosine", warmup = 2, min_lr = 1e-3 }
[device]
threads = 1
)";
  return path;
}

std::vector<std::string> command_of(const Settings& settings, const Plan& plan, const RunPaths& paths,
                                    const std::vector<std::string>& start) {
  std::vector<std::string> words{settings.strata, "launch"};
  if (plan.communicator == "mpi") {
    words = {STRATA_MPIRUN, "-n", std::to_string(plan.stack.ranks), settings.strata, "train"};
  }
  words.push_back(paths.configuration.string());
  for (const std::string& setting :
       {"strategy=[" + plan.stack.strategies + "]", "run.output=" + paths.output.string(),
        "communicator.plugin=" + plan.communicator, "communicator.timeout=" + std::to_string(plan.timeout),
        "communicator.start_timeout=" + std::to_string(settings.deadline / 2),
        "run.checkpoint_every=" + std::to_string(plan.checkpoint_every),
        "run.keep_checkpoints=" + std::to_string(plan.keep), "run.eval_every=" + std::to_string(plan.evaluates ? 7 : 0),
        std::string("run.checkpoint_mode=") + (plan.background ? "background" : "foreground")}) {
    words.insert(words.end(), {"--set", setting});
  }
  words.insert(words.end(), {"--log-json", paths.log.string()});
  if (plan.max_restarts > 0) words.insert(words.end(), {"--max-restarts", std::to_string(plan.max_restarts)});
  if (plan.communicator == "gloo" && plan.grace > 0) {
    words.insert(words.end(), {"--grace", std::to_string(plan.grace)});
  }
  words.insert(words.end(), start.begin(), start.end());
  return words;
}

std::vector<std::string> environment_of(const Settings& settings, const fs::path& temporary) {
  const std::string folder = temporary.string();
  return {"STRATA_PLUGIN_PATH=" + settings.plugins, "XDG_DATA_HOME=" + folder, "TMPDIR=" + folder,
          // Open MPI runs more processes than the machine has cores, and as root, only if it is told to.
          "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1",
          "OMPI_MCA_hwloc_base_binding_policy=none",
          // The time that ranks get to write a checkpoint after a SIGTERM to the launcher.
          "OMPI_MCA_odls_base_sigkill_timeout=4",
          // What a killed rank leaves vanishes with the folder.
          "OMPI_MCA_btl_vader_backing_directory=" + folder};
}

}  // namespace strata::testing::chaos
