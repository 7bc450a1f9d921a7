"""Trains small models, and reads their event files with TensorBoard.

Usage: python test_logs.py STRATA
"""
import math
import pathlib
import struct
import sys
import tempfile
import unittest

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from run_strata import Strata, events_of, steps_of

TENSORBOARD = "log.tensorboard=true"

# Tags and keys of the log that have the same values.
STEP_TAGS = {
    "loss/train": "loss",
    "optimizer/learning_rate": "lr",
    "optimizer/gradient_norm": "grad_norm",
    "speed/tokens_per_second": "tokens_per_second",
    "speed/model_flops_per_second": "model_flops_per_second",
    "speed/model_flops_utilisation": "mfu",
    "time/step_seconds": "step_seconds",
    "time/wait_seconds": "wait_seconds",
    "time/data_wait_seconds": "data_wait_seconds",
    "memory/arena_bytes": "arena_bytes",
    "memory/resident_bytes": "rss_bytes",
}


def read_events(folder):
    """The scalars of each tag, as pairs of step and value."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def in_f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def points(records, *keys):
    """Pairs of step and value, as TensorBoard keeps them."""
    found = []
    for each in records:
        value = each
        for key in keys:
            value = value[key]
        found.append((each["step"], in_f32(value)))
    return found


class LogTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.strata = Strata(LogTest.program, self.folder.name)

    def assert_same_values(self, output, records):
        """The event files and the log agree in every value, and each step is there once."""
        found = read_events(output)
        steps = steps_of(records)
        self.assertEqual([each["step"] for each in steps], list(range(1, 9)))
        for tag, key in STEP_TAGS.items():
            self.assertEqual(found[tag], points(steps, key), tag)
        for group in steps[0]["grad_norms"]:
            self.assertEqual(found[f"gradient_norm/{group}"], points(steps, "grad_norms", group), group)
        self.assertEqual(found["loss/validation"], points(events_of(records, "eval"), "loss"))

    def test_tensorboard_reads_the_values_of_the_log(self):
        output, records = self.strata.train("run", TENSORBOARD, "log.peak_tflops=0.5", 'strategy=[{plugin="ddp", size=2}]')
        self.assert_same_values(output, records)
        step = steps_of(records)[0]
        self.assertAlmostEqual(step["mfu"] * 2 * 0.5e12 / step["model_flops_per_second"], 1)
        found = read_events(output)
        self.assertEqual(found["memory/planned_bytes"][0][1], records[-1]["planned_peak_bytes"][0])
        checkpoints = events_of(records, "checkpoint")
        self.assertEqual(found["checkpoint/pause_seconds"], points(checkpoints, "pause_seconds"))
        for at, ranks in enumerate(events_of(records, "ranks")):
            own = [a - b for a, b in zip(ranks["step_seconds"], ranks["wait_seconds"])]
            self.assertEqual(found["ranks/slowest_own_seconds"][at], (ranks["step"], in_f32(max(own))))
            self.assertEqual(found["ranks/median_own_seconds"][at][1], in_f32(min(own)))
            self.assertEqual(own[int(found["ranks/slowest_rank"][at][1])], max(own))

    def test_model_flops_are_those_of_the_products(self):
        """6 per parameter of a product and token, and 12 x layers x embed x context / 2 for causal attention."""
        _, records = self.strata.train("run", "run.eval_every=0", steps=2)
        embed, layers, context = 16, 4, 8
        step = steps_of(records)[0]
        tokens = 8 * context
        attention = 12 * layers * embed * context / 2
        per_token = step["model_flops_per_second"] * step["step_seconds"] / tokens - attention - 6 * 12 * layers * embed**2
        vocab = per_token / (6 * embed)
        self.assertAlmostEqual(vocab, round(vocab), places=6)
        self.assertTrue(20 < vocab < 300, vocab)

    def test_a_resumed_run_has_each_step_once(self):
        output, _ = self.strata.train("run", TENSORBOARD)
        first = sorted(output.glob("*tfevents*"))
        checkpoint = output / "checkpoints" / "step-00000004"
        output, records = self.strata.train("run", TENSORBOARD, arguments=("--resume", checkpoint))
        self.assertEqual(len(sorted(output.glob("*tfevents*"))), len(first) + 1)
        self.assert_same_values(output, records)

    def test_a_run_that_starts_anew_leaves_nothing_of_the_one_before(self):
        output, _ = self.strata.train("run", TENSORBOARD)
        (output / "events.out.tfevents.1.other").write_text("")
        output, records = self.strata.train("run", TENSORBOARD, arguments=("--overwrite",))
        self.assertEqual(len(list(output.glob("*tfevents*.strata"))), 1)
        self.assertTrue((output / "events.out.tfevents.1.other").exists(), "a file of another program")
        self.assert_same_values(output, records)

    def test_a_file_that_a_crash_has_torn_is_read(self):
        output, _ = self.strata.train("run", TENSORBOARD)
        [file] = output.glob("*tfevents*")
        file.write_bytes(file.read_bytes()[:-7])
        found = read_events(output)
        self.assertEqual([step for step, _ in found["loss/train"]], list(range(1, 9)))
        output, records = self.strata.train(
            "run", TENSORBOARD, arguments=("--resume", output / "checkpoints" / "step-00000006"))
        self.assert_same_values(output, records)

    def test_training_is_the_same_with_and_without(self):
        _, with_files = self.strata.train("with", TENSORBOARD, 'strategy=[{plugin="zero", stage=3, size=2}]')
        _, without = self.strata.train("without", 'strategy=[{plugin="zero", stage=3, size=2}]')
        for a, b in zip(steps_of(with_files), steps_of(without)):
            self.assertEqual((a["loss"], a["grad_norm"]), (b["loss"], b["grad_norm"]))
            self.assertNotIn("grad_norms", b)
        self.assertEqual(list((pathlib.Path(self.folder.name) / "without").glob("*tfevents*")), [])

    def test_norms_of_groups_are_those_of_one_rank_under_every_sharding(self):
        layers = "log.norm_groups=layer"
        _, records = self.strata.train("one", layers, steps=2)
        expected = steps_of(records)
        self.assertEqual(set(expected[0]["grad_norms"]), {"wte", "wpe", "ln_f", "h.0", "h.1", "h.2", "h.3"})
        stacks = {
            "ddp": '{plugin="ddp", size=2}',
            "zero1": '{plugin="zero", stage=1, size=2}',
            "zero3": '{plugin="zero", stage=3, size=2}',
            "tensor": '{plugin="tensor", size=2, sequence_parallel=true}',
            "pipeline": '{plugin="pipeline", size=2}',
            "all": '{plugin="pipeline", size=2}, {plugin="zero", stage=2, size=2}, {plugin="tensor", size=2}',
            "scaled": '{plugin="precision", compute="fp16"}, {plugin="zero", stage=3, size=2}',
        }
        for name, stack in stacks.items():
            _, records = self.strata.train(name, layers, f"strategy=[{stack}]", steps=2)
            tolerance = 2e-2 if name == "scaled" else 1e-4
            for one, other in zip(expected, steps_of(records)):
                for group, norm in one["grad_norms"].items():
                    self.assertTrue(math.isclose(other["grad_norms"][group], norm, rel_tol=tolerance),
                                    (name, group, norm, other["grad_norms"][group]))
                squares = sum(norm**2 for norm in other["grad_norms"].values())
                self.assertTrue(math.isclose(squares, other["grad_norm"] ** 2, rel_tol=1e-9), name)

    def test_norms_of_optimizer_groups(self):
        _, records = self.strata.train("run", "log.norm_groups=optimizer_group", steps=1, arguments=(
            "--set", 'optimizer.group=[{parameters=["*.bias", "ln_f.*"]}, {parameters=["wpe.*"], frozen=true}]'))
        [step] = steps_of(records)
        self.assertEqual(set(step["grad_norms"]), {"*.bias ln_f.*", "others"})
        squares = sum(norm**2 for norm in step["grad_norms"].values())
        self.assertTrue(math.isclose(squares, step["grad_norm"] ** 2, rel_tol=1e-9))


if __name__ == "__main__":
    LogTest.program = sys.argv.pop(1)
    unittest.main()
