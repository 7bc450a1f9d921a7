"""Draws the pictures of Strata, and measures them: all texts lie within the frame, and no two overlap.

Usage: python test_pictures.py STRATA
"""
import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

from pictures import faults
from run_strata import Strata

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# The largest width of a timeline, which fits a page.
WIDEST = 1400
PIPELINE = ["configs/pipeline.toml"]
TIMELINES = {
    "sixteen": ["configs/everything-16.toml"],
    "one stage": ["configs/quickstart.toml"],
    "zbv": [*PIPELINE, "--set", "strategy.0.schedule=zbv"],
    "64 micro-batches": [*PIPELINE, "--set", "batch.global=64", "--set", "batch.micro=1"],
    "300 micro-batches": [*PIPELINE, "--set", "batch.global=300", "--set", "batch.micro=1"],
    "many stages": [*PIPELINE, "--set", "strategy.0.size=24", "--set", "model.layers=24"],
    "long name": [*PIPELINE, "--set", f"run.name={'a-very-long-name-' * 11}end"],
}


class PicturesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.strata = Strata(PicturesTest.program, self.folder)

    def measured(self, picture):
        root = xml.parse(picture).getroot()
        self.assertEqual(faults(root), [])
        return root

    def test_timelines(self):
        for name, (configuration, *settings) in TIMELINES.items():
            for more in ([], ["--equal-chunks"]):
                with self.subTest(name, more=more):
                    picture = self.folder / "timeline.svg"
                    result = self.strata.run("explain", REPOSITORY / configuration, "--timeline", picture, *settings, *more,
                                             "--set", f"data.path={self.folder}/text.txt", "--set", "run.eval_every=0")
                    self.assertEqual(result.returncode, 0, result.stderr)
                    root = self.measured(picture)
                    self.assertLessEqual(float(root.get("width")), WIDEST)
                    words = " ".join(each.text for each in root.iter() if each.tag.endswith("text"))
                    self.assertIn("time, in forward passes", words)
                    self.assertIn("of the work", words)
                    self.assertIn("end" if name == "long name" else "", words)

    def test_curves(self):
        shapes = {
            "one": [3.0], "two": [1e5, 2e5], "equal": [2.0] * 5, "tiny": [1e-12 * step for step in range(1, 9)],
            "large": [1e12 + step for step in range(9)], "below zero": [-3.5, -2.25, -1.125],
            "ä" * 90: [5.0, 4.0, 3.0], "name " * 30: [5.0, 4.0, 3.0],
        }
        logs = []
        for name, values in shapes.items():
            logs.append(self.folder / f"{name}.jsonl")
            logs[-1].write_text("".join(json.dumps({"step": 1 + 9973 * step, "loss": value}) + "\n"
                                        for step, value in enumerate(values)))
        for arguments in (*([log] for log in logs), logs, [*logs, "--log-y"], [*logs, "--smooth", 3]):
            with self.subTest(arguments):
                picture = self.folder / "curves.svg"
                result = self.strata.run("plot", *arguments, "--output", picture)
                if result.returncode == 2 and "--log-y" in result.stderr:
                    continue
                self.assertEqual(result.returncode, 0, result.stderr)
                self.measured(picture)

    def test_pictures_of_the_pages(self):
        found = sorted((REPOSITORY / "docs").rglob("*.svg"))
        self.assertGreaterEqual(len(found), 2)
        for each in found:
            with self.subTest(each.name):
                self.measured(each)


if __name__ == "__main__":
    PicturesTest.program = sys.argv.pop(1)
    unittest.main()
