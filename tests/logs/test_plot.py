"""Tests of `strata plot`: its pictures are read back as numbers.

Usage: python test_plot.py STRATA
"""
import json
import os
import pathlib
import re
import stat
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

from pictures import SVG, faults
from run_strata import Strata

SUFFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def number(text):
    return float(text[:-1]) * SUFFIXES[text[-1]] if text[-1] in SUFFIXES else float(text)


class Picture:
    """A picture of `strata plot`, whose ticks say what its positions mean."""

    def __init__(self, path):
        self.root = xml.parse(path).getroot()
        self.x = self.scale("x-tick", "x", 0)
        self.y = self.scale("y-tick", "y", -4)

    def with_class(self, tag, name):
        return [each for each in self.root.iter(SVG + tag) if name in each.get("class", "").split()]

    def scale(self, name, attribute, shift):
        """Makes values of positions. The first and the last tick define the scale; the others must lie on it."""
        ticks = [(float(each.get(attribute)) + shift, number(each.text)) for each in self.with_class("text", name)]
        assert len(ticks) >= 3, ticks
        (a, low), (b, high) = ticks[0], ticks[-1]
        for position, value in ticks:
            assert abs(low + (position - a) / (b - a) * (high - low) - value) < 0.01 * abs(high - low), ticks
        return lambda position: low + (position - a) / (b - a) * (high - low)

    def curves(self):
        """The points of each line, by its title."""
        found = {}
        for each in self.with_class("path", "curve"):
            title = each.find(SVG + "title")
            if title is None or "pale" in each.get("class"):
                continue
            pairs = re.findall(r"[ML]([-\d.]+),([-\d.]+)", each.get("d"))
            found[title.text] = [(self.x(float(x)), self.y(float(y))) for x, y in pairs]
        return found

    def dots(self):
        return [(self.x(float(each.get("cx"))), self.y(float(each.get("cy")))) for each in self.with_class("circle", "dot")]


class PlotTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.strata = Strata(PlotTest.program, self.folder)
        self.picture = self.folder / "plot.svg"

    def write_log(self, name, losses, more=()):
        """A log of steps of 100 tokens in 0.5 seconds, with an evaluation after every second one."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        lines = []
        for step, loss in enumerate(losses, 1):
            lines.append(json.dumps({"step": step, "loss": loss, "tokens_per_second": 200.0, "step_seconds": 0.5,
                                     "grad_norms": {"h.0": None if loss is None else loss / 2}}))
            if step % 2 == 0 and loss is not None:
                lines.append(json.dumps({"event": "eval", "step": step, "loss": loss + 1}))
        path.write_text("\n".join([*lines, *more]) + "\n")
        return path

    def plot(self, *arguments):
        result = self.strata.run("plot", *arguments, "--output", self.picture)
        self.assertEqual(result.returncode, 0, result.stderr)
        return Picture(self.picture)

    def refusal(self, *arguments):
        result = self.strata.run("plot", *arguments, "--output", self.picture)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertFalse(self.picture.exists())
        return result.stderr

    def assert_points(self, found, expected, tolerance):
        self.assertEqual(len(found), len(expected))
        for (x, y), (wanted_x, wanted_y) in zip(found, expected):
            self.assertAlmostEqual(x, wanted_x, delta=tolerance)
            self.assertAlmostEqual(y, wanted_y, delta=tolerance)

    def test_points_are_the_logged_values(self):
        losses = [5 - 0.3 * step + 0.1 * (step % 3) for step in range(12)]
        one = self.write_log("one.jsonl", losses)
        self.write_log("other/log.jsonl", [loss + 0.5 for loss in losses])
        picture = self.plot(one, self.folder / "other")
        curves = picture.curves()
        self.assertEqual(list(curves), ["one", "other"])
        self.assert_points(curves["one"], list(enumerate(losses, 1)), 0.02)
        self.assert_points(curves["other"], [(step, loss + 0.5) for step, loss in enumerate(losses, 1)], 0.02)
        dots = [(step, loss + 1) for step, loss in enumerate(losses, 1) if step % 2 == 0]
        self.assert_points(picture.dots(), dots + [(step, loss + 0.5) for step, loss in dots], 0.02)

    def test_x_and_field_and_smooth(self):
        losses = [float(step % 4) for step in range(20)]
        log = self.write_log("log.jsonl", losses)
        [tokens] = self.plot(log, "--x", "tokens").curves().values()
        self.assert_points(tokens, [(100 * step, loss) for step, loss in enumerate(losses, 1)], 5)
        [seconds] = self.plot(log, "--x", "seconds", "--field", "grad_norms.h.0").curves().values()
        self.assert_points(seconds, [(0.5 * step, loss / 2) for step, loss in enumerate(losses, 1)], 0.05)
        [smooth] = self.plot(log, "--smooth", 4).curves().values()
        self.assert_points(smooth, [(step, 1.5) for step in range(4, 21)], 0.05)
        # Without as many steps as are wanted, all of them count.
        [short] = self.plot(self.write_log("short.jsonl", [1.0, 3.0]), "--smooth", 9).curves().values()
        self.assert_points(short, [(1, 1), (2, 2)], 0.05)

    def test_values_that_are_no_numbers_are_left_out(self):
        log = self.write_log("log.jsonl", [4.0, None, -1.0, 3.0, 2.0], more=['{"step": 6, "lo'])
        log.write_text(log.read_text().rstrip("\n"))
        self.assertEqual([round(x) for x, _ in self.plot(log).curves()["log"]], [1, 3, 4, 5])
        self.assertIn("the last line is torn, and left out", self.strata.run("plot", log, "--output", self.picture).stderr)
        self.strata.run("plot", log, "--log-y", "--output", self.picture)
        [curve] = [each for each in xml.parse(self.picture).getroot().iter(SVG + "path")
                   if each.get("class") == "curve" and len(each) > 0]
        self.assertEqual(curve.get("d").count("L"), 2)

    def test_long_logs_keep_their_extremes(self):
        losses = [1.0] * 20000
        losses[7777] = 9.0
        losses[15555] = -3.0
        [curve] = self.plot(self.write_log("log.jsonl", losses)).curves().values()
        self.assertLess(len(curve), 4000)
        self.assertAlmostEqual(max(y for _, y in curve), 9, delta=0.05)
        self.assertAlmostEqual(min(y for _, y in curve), -3, delta=0.05)

    def test_what_is_at_the_output_stays_what_it_is(self):
        log = self.write_log("log.jsonl", [3.0, 2.0, 1.0])
        before = log.read_text()
        self.picture = log
        result = self.strata.run("plot", log, "--output", log)
        self.assertEqual(result.returncode, 2)
        self.assertIn("which is a log to read; accepted: another file", result.stderr)
        self.assertEqual(log.read_text(), before)
        target = self.folder / "target.svg"
        target.write_text("old")
        self.picture = self.folder / "link.svg"
        self.picture.symlink_to(target)
        result = self.strata.run("plot", log, "--output", self.picture)
        self.assertEqual(result.returncode, 2)
        self.assertIn("is a symbolic link; accepted: the name of the file itself", result.stderr)
        self.assertEqual(target.read_text(), "old")
        self.picture = target
        self.plot(log)
        self.assertTrue(target.read_text().startswith("<svg"))
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.assertEqual(self.strata.run("plot", log, "--output", pipe).returncode, 0)
        self.assertEqual(os.read(reader, 1 << 16).decode(), target.read_text())
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        self.assertEqual(self.strata.run("plot", log, "--output", "/dev/full").returncode, 1)
        for place, message in ((self.folder, "found a folder"), (self.folder / "no" / "x.svg", "there is no folder")):
            result = self.strata.run("plot", log, "--output", place)
            self.assertEqual(result.returncode, 2)
            self.assertIn(message, result.stderr)

    def test_numbers_that_a_picture_cannot_hold(self):
        picture = self.plot(self.write_log("log.jsonl", [1e308, -1e308, 3.0, 2.0, 1.0]))
        self.assert_points(picture.curves()["log"], [(3, 3), (4, 2), (5, 1)], 0.05)
        log = self.folder / "equal.jsonl"
        log.write_text('{"step": 7, "loss": 1}\n' * 5000)
        self.assertLess(len(self.plot(log).curves()["equal"]), 5)
        log.write_text('{"step": 1, "loss": 1, "tokens_per_second": 1e308, "step_seconds": 1e3}\n')
        self.picture.unlink()
        self.assertIn("equal.jsonl:1: found a step, or a sum of tokens or seconds, that is too large",
                      self.refusal(log, "--x", "tokens"))

    def test_a_logarithmic_axis_may_span_all_numbers(self):
        for losses in ([1.0, 1e-320], [1e300, 1e-300], [1e-320, 1e-320]):
            self.plot_log(losses)

    def plot_log(self, losses):
        log = self.write_log("log.jsonl", losses)
        result = self.strata.run("plot", log, "--log-y", "--output", self.picture)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotRegex(self.picture.read_text(), r"\b(nan|inf)\b")

    def test_labels_are_short(self):
        for steps in (10_000, 100_000, 150_000, 999_999, 10_000_000, 123_456_789):
            log = self.folder / "steps.jsonl"
            log.write_text("".join(f'{{"step": {step}, "loss": 1}}\n' for step in (1, steps)))
            ticks = [each.text for each in self.plot(log).with_class("text", "x-tick")]
            self.assertTrue(all(re.fullmatch(r"[\d.]+[kMG]?", each) for each in ticks), ticks)

    def test_all_texts_are_within_the_picture_and_apart(self):
        logs = [self.write_log(f"{letter * 150}.jsonl", [1e5, 2e5, 3e5]) for letter in "ab"]
        logs.append(self.write_log("c.jsonl", [1e5]))
        picture = self.plot(*logs)
        self.assertEqual(faults(picture.root), [])
        strokes = [each.get("stroke-dasharray") for each in picture.with_class("path", "curve") if len(each) > 0]
        self.assertEqual(len(set(strokes)), 3, "told apart without colours")
        self.assertIn("h8", picture.with_class("path", "curve")[-1].get("d"), "one point is visible")

    def test_a_terminal_gets_text(self):
        losses = [5 * 0.9 ** step + 1 for step in range(40)]
        logs = [self.write_log("one.jsonl", losses), self.write_log("other \x1b.jsonl", [7.0] * 40)]
        result = self.strata.run("plot", *logs)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "loss in nats")
        self.assertEqual([line.strip() for line in lines[-2:]], ["* one", "o other \\x1b"])
        self.assertTrue(all(len(line) <= 80 for line in lines), lines)
        rows = [line.partition("|")[2] for line in lines if "|" in line]
        self.assertIn("o", rows[0], "the highest curve is on top")
        # A falling curve falls from the left to the right, to the lowest row.
        columns = [next(row.index("*") for row in rows if "*" in row), rows[-1].rindex("*")]
        self.assertEqual(columns, [0, 59])

    def test_other_pictures_are_refused(self):
        log = self.write_log("log.jsonl", [2.0, 1.0])
        self.picture = self.folder / "plot.png"
        self.assertIn("whose name says .png; accepted: a name.svg", self.refusal(log))

    def test_any_name_is_text(self):
        name = 'a<b>&"c\' \x1b.jsonl'
        curves = self.plot(self.write_log(name, [3.0, 2.0, 1.0])).curves()
        self.assertEqual(list(curves), ['a<b>&"c\' \\x1b'])
        self.assertNotIn("script", self.picture.read_text())

    def test_what_cannot_be_is_one_message(self):
        good = self.write_log("good.jsonl", [3.0, 2.0])
        bad = self.write_log("bad.jsonl", [3.0], more=["no JSON", "{}"])
        self.assertIn(f"{bad}:2: found no JSON object", self.refusal(good, bad))
        bad.write_text('{"loss": 1}\n')
        self.assertIn(f"{bad}:1: found no number 'step'", self.refusal(bad))
        self.assertIn("has no step with a number 'lss'; did you mean 'loss'?; accepted: grad_norms.h.0, loss,",
                      self.refusal(good, "--field", "lss"))
        self.assertIn("'nowhere.jsonl': cannot be opened: No such file", self.refusal("nowhere.jsonl"))
        self.assertIn("has more than one file *.jsonl", self.refusal(self.folder))
        self.assertIn("nothing to show", self.refusal(self.write_log("low.jsonl", [-1.0]), "--log-y"))


if __name__ == "__main__":
    PlotTest.program = sys.argv.pop(1)
    unittest.main()
