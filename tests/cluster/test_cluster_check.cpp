#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build_paths.hpp"
#include "cluster_example.hpp"
#include "config/run_configuration.hpp"
#include "train/inspection.hpp"

namespace strata::host {
namespace {

/// A run on GPUs that no machine of the tests has, of data that is not there.
constexpr const char* kRun = R"(
[run]
checkpoint_mode = "foreground"
[model]
plugin = "gpt2"
layers = 2
heads = 4
embed = 64
context = 32
[data]
plugin = "text"
path = "missing.txt"
[batch]
global = 64
[device]
plugin = "cuda"
[communicator]
plugin = "nccl"
[[strategy]]
plugin = "zero"
size = 8
)";

struct Verdict {
  const char* cluster;
  std::vector<std::string> overrides;
  /// A piece of the refusal. Empty: the run is accepted.
  const char* refusal;

  friend void PrintTo(const Verdict& verdict, std::ostream* out) { *out << verdict.cluster << ' ' << verdict.refusal; }
};

class ClusterVerdicts : public testing::TestWithParam<Verdict> {};

TEST_P(ClusterVerdicts, NeedNoDeviceNoLibraryAndNoData) {
  const Verdict& expected = GetParam();
  const DocumentNode document = parse_document(expected.cluster, "c.toml");
  PluginRegistry registry({plugin_folder()});
  std::string refusal;
  try {
    const InspectionTarget target{.cluster = read_cluster(document.children.front(), request_of_test()), .vocab = 300};
    const Inspection inspection = inspect(parse_configuration(kRun, "run.toml", expected.overrides), registry, target);
    refusal = find_fault(inspection).value_or("");
  } catch (const ConfigurationError& error) {
    refusal = error.what();
  }
  if (std::string(expected.refusal).empty()) {
    EXPECT_EQ(refusal, "");
  } else {
    EXPECT_THAT(refusal, testing::HasSubstr(expected.refusal));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ClusterVerdicts,
    testing::Values(
        Verdict{"cluster.based_on = \"dgx-h100\"", {}, ""},
        Verdict{"cluster.based_on = \"dgx-h100\"", {"strategy.0.size=16"}, "has 8 devices, too few for rank 15"},
        Verdict{"cluster = { based_on = \"dgx-h100\", nodes = 2 }", {"strategy.0.size=16"}, ""},
        // 16 MiB: the whole device, which driver and libraries need half of.
        Verdict{"cluster = { based_on = \"dgx-h100\", device.h100-sxm = { memory_bytes = 16777216, reserved_bytes = "
                "8388608 } }",
                {"model.embed=512"},
                "bytes, its h100-sxm has 8388608; a smaller batch.micro"},
        // Eight ranks share the memory of the machine.
        Verdict{"cluster = { based_on = \"two-core\", device.two-core.memory_bytes = 16777216 }",
                {"model.embed=256"},
                "bytes, its two-core has 2097152; a smaller batch.micro"},
        // 300 tokens, and the classes and segments of the model.
        Verdict{"cluster.based_on = \"dgx-h100\"",
                {"model={plugin=\"bert\", layers=2, heads=2, embed=64, context=32, classes=2, segments=1}",
                 "data={plugin=\"sentences\", path=\"x\", labels=\"y\", first_token=1, last_token=2, document_end=0}"},
                ""},
        Verdict{
            "cluster.based_on = \"dgx-h100\"",
            {"model={plugin=\"bert\", vocab=200, layers=2, heads=2, embed=64, context=32, classes=1000, segments=1}",
             "data={plugin=\"sentences\", path=\"x\", labels=\"y\", first_token=1, last_token=2, document_end=0}"},
            "found 'vocab' = 200 from model 'bert'; accepted: at least 300"},
        Verdict{"cluster.based_on = \"dgx-h100\"",
                {"model.vocab=200"},
                "found 'vocab' = 200 from model 'gpt2'; accepted: at least 300"},
        // Offloaded states need host memory.
        Verdict{"cluster = { based_on = \"dgx-h100\", group = [{ name = \"node\", host_memory_bytes = 1e7 }] }",
                {"strategy=[{plugin=\"zero\", size=8, stage=3, offload_optimizer=\"host\"}]", "model.embed=512"},
                "bytes for what it offloads, its share of host memory has 1250000; a smaller"},
        // The copy of a checkpoint needs host memory.
        Verdict{"cluster = { based_on = \"dgx-h100\", group = [{ name = \"node\", host_memory_bytes = 1e7 }] }",
                {"run.checkpoint_mode=background", "run.checkpoint_every=10", "model.embed=512"},
                "for the copy of a checkpoint, its share of host memory has 1250000"}));

}  // namespace
}  // namespace strata::host
