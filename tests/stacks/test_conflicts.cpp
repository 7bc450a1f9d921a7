#include <gmock/gmock.h>

#include "stack_row.hpp"

namespace strata::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;

/// An impossible stack, and what the refusal must name: the strategies or options that conflict, and their place.
struct Conflict {
  const char* name;
  std::string strategies;
  Matcher<std::string> message;
  int global_batch = 12;
};

void PrintTo(const Conflict& conflict, std::ostream* out) { *out << conflict.name; }

class StackConflict : public ::testing::TestWithParam<Conflict> {};

TEST_P(StackConflict, IsRefusedByNameAndPlace) {
  std::string message = "accepted";
  try {
    static_cast<void>(compile_training(small_gpt2(GetParam().strategies, GetParam().global_batch, 1)));
  } catch (const ConfigurationError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, GetParam().message);
}

std::string other_axis(const std::string& plugin) { return table(plugin, 2, "axis = \"other\"\n"); }

INSTANTIATE_TEST_SUITE_P(
    Typical, StackConflict,
    ::testing::Values(
        Conflict{"two_zero", table("zero", 2) + other_axis("zero"),
                 AllOf(HasSubstr("small_gpt2.toml:29:1: strategy.1: strategy 2 'zero' decides on the storage of "
                                 "parameter '"),
                       HasSubstr("', and so does strategy 1 'zero'; only one strategy of a stack may"))},
        Conflict{"zero_and_single_writer", table("zero", 2, "overlap = false\n") + other_axis("dataparallel"),
                 AllOf(HasSubstr("small_gpt2.toml:30:1: strategy.1: strategy 2 'dataparallel' decides on the storage "
                                 "of parameter '"),
                       HasSubstr("', and so does strategy 1 'zero'; only one strategy of a stack may"))},
        Conflict{"two_pipelines", table("pipeline", 2) + other_axis("pipeline"),
                 HasSubstr("small_gpt2.toml:29:1: strategy.1: strategy 2 'pipeline' decides on the placement of "
                           "blocks, and so does strategy 1 'pipeline'; only one strategy of a stack may")},
        Conflict{"two_rings", table("context", 2) + other_axis("context"),
                 HasSubstr("small_gpt2.toml:29:1: strategy.1: strategy 2 'context' decides on how node 'h.0.attn' is "
                           "lowered, and so does strategy 1 'context'; only one strategy of a stack may")},
        Conflict{"buckets_of_two_sizes", table("ddp", 2) + other_axis("ddp") + "bucket_mb = 1\n",
                 HasSubstr("small_gpt2.toml:29:1: strategy.1: strategy 2 'ddp' reduces gradients in buckets of 1048576 "
                           "bytes with overlap, and strategy 1 'ddp' in buckets of 26214400 bytes with overlap; set "
                           "the same in both")},
        Conflict{"buckets_with_and_without_overlap", table("ddp", 2) + other_axis("dataparallel"),
                 HasSubstr("small_gpt2.toml:29:1: strategy.1: strategy 2 'dataparallel' reduces gradients in buckets "
                           "of 26214400 bytes without overlap, and strategy 1 'ddp' in buckets of 26214400 bytes with "
                           "overlap; set the same in both")},
        Conflict{"an_axis_twice", table("zero", 2) + table("ddp", 2),
                 HasSubstr("small_gpt2.toml:29:1: strategy.1: strategy 2 'ddp' adds mesh axis 'dp', and so does "
                           "strategy 1 'zero'; give each axis a name of its own")},
        Conflict{"an_axis_that_is_not_there", table("zero", 2, "also_over = [\"cp\"]\n"),
                 HasSubstr("small_gpt2.toml:25:1: strategy.0: strategy 1 'zero' stores parameters over mesh axis "
                           "'cp', which no strategy adds")},
        Conflict{"more_chunks_than_blocks", table("pipeline", 2, "schedule = \"interleaved\"\nvirtual_stages = 3\n"),
                 HasSubstr("small_gpt2.toml:27:8: strategy.0.size: found 2 stages of 3 chunks; accepted: at "
                           "most 4 chunks in all, the number of blocks of the model")},
        Conflict{"chunks_of_another_schedule", table("pipeline", 2, "schedule = \"zb-h1\"\nvirtual_stages = 2\n"),
                 HasSubstr("small_gpt2.toml:29:18: strategy.0.virtual_stages: found 2 with schedule \"zb-h1\"")},
        Conflict{"micro_batches_that_do_not_interleave",
                 table("pipeline", 2, "schedule = \"interleaved\"\nvirtual_stages = 2\n"),
                 HasSubstr("small_gpt2.toml:28:12: strategy.0.schedule: \"interleaved\" found 5 micro-batches on 2 "
                           "stages; accepted: a multiple of 2 micro-batches"),
                 5},
        Conflict{"micro_batches_that_are_all_in_flight", table("pipeline", 2, "schedule = \"gpipe\"\n"),
                 HasSubstr("strategy 1 'pipeline' orders the work on 65537 micro-batches without rounds that repeat "
                           "themselves; accepted: at most 65536, with a larger batch.micro"),
                 65537},
        Conflict{"ranks_that_divide_nothing", table("tensor", 3, "vocab_parallel = false\n"),
                 HasSubstr("small_gpt2.toml:25:1: strategy.0: strategy 1 'tensor' adds mesh axis 'tp' of size 3, which "
                           "shards nothing: found ffn = 64, heads = 2; accepted: one that is a multiple")},
        Conflict{"secondary_shards_of_nothing", table("zero", 4, "stage = 2\nhierarchical_partition = 2\n"),
                 HasSubstr("small_gpt2.toml:29:26: strategy.0.hierarchical_partition: found 2 with stage 2")},
        Conflict{"an_op_that_is_not_there",
                 table("recompute", std::string("policy = \"selective\"\nops = [\"attetion\"]")),
                 HasSubstr("small_gpt2.toml:28:7: strategy.0.ops: there is no op 'attetion'; did you mean "
                           "'attention'?")},
        Conflict{"a_batch_that_the_replicas_do_not_divide", table("ddp", 5),
                 HasSubstr("small_gpt2.toml:15:10: batch.global: found 12; accepted: a multiple of 5")}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace strata::testing
