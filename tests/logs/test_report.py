"""Tests of `strata report`: its page is well-formed, loads nothing, and shows the numbers of the run.

If chromium is installed, it opens the page and must print no error to its console.

Usage: python test_report.py STRATA
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import xml.etree.ElementTree as xml

from pictures import SVG, faults
from run_strata import Strata, events_of, steps_of

HTML = "{http://www.w3.org/1999/xhtml}"
PIPELINE = ["strategy.0.plugin=pipeline", "strategy.0.size=2"]
DATA = ["strategy.1.plugin=ddp", "strategy.1.size=2"]


class Page:
    def __init__(self, path):
        self.text = pathlib.Path(path).read_text()
        self.root = xml.fromstring(self.text.partition("\n")[2])

    def figures(self):
        """The pictures by the names of their figures."""
        found = {}
        for each in self.root.iter(HTML + "figure"):
            kind, _, content = each.find(HTML + "img").get("src").partition(",")
            assert kind == "data:image/svg+xml", kind
            found[each.get("id")] = xml.fromstring(urllib.parse.unquote(content))
        return found

    def rows(self):
        """The rows of all tables by their first cell."""
        found = {}
        for each in self.root.iter(HTML + "tr"):
            cells = [cell.text or "" for cell in each]
            found[cells[0]] = cells[1:]
        return found


def sizes(program, *arguments):
    """The report of `strata explain`."""
    return json.loads(program.run("explain", *arguments, "--json").stdout)


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.strata = Strata(sys.argv[1], cls.folder.name)
        cls.output, cls.records = cls.strata.train("run", *PIPELINE, *DATA)
        shutil.copy(cls.strata.folder / "run.jsonl", cls.output)
        cls.path = cls.strata.folder / "run.html"
        result = cls.strata.run("report", cls.output, cls.path, "--cluster", "two-core")
        assert result.returncode == 0, result.stderr
        cls.page = Page(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_page_loads_nothing(self):
        for page in (self.page.text, *map(xml.tostring, self.page.figures().values())):
            page = page if isinstance(page, str) else page.decode()
            links = [each for each in re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"'\s>)]+)""", page)
                     if not each.startswith(("data:", "#", "%23"))]
            self.assertEqual(links, [])
            self.assertNotIn("<script", page)
            self.assertNotIn("@import", page)

    def test_the_page_has_its_figures(self):
        figures = self.page.figures()
        self.assertEqual(list(figures), ["loss", "grad_norm", "tokens_per_second", "step_seconds", "memory", "timeline",
                                         "traffic"])
        for name, picture in figures.items():
            self.assertEqual(picture.tag, SVG + "svg", name)
        for name in ("memory", "traffic"):
            self.assertEqual(faults(figures[name]), [], name)

    def test_captions_have_the_last_values(self):
        last = steps_of(self.records)[-1]
        captions = " ".join(each.text for each in self.page.root.iter(HTML + "figcaption"))
        for field in ("loss", "grad_norm"):
            found = [float(each) for each in re.findall(r": ([-\d.e]+) at step 8\.", captions)]
            self.assertTrue(any(abs(each - last[field]) < 1e-12 for each in found), (field, found))

    def test_traffic_is_what_explain_counts(self):
        config = self.strata.folder / "run.toml"
        options = [word for each in PIPELINE + DATA for word in ("--set", each)]
        explained = sizes(self.strata, config, *options)
        by_class = {}
        for each in explained["communication"]:
            by_class[each["class"]] = by_class.get(each["class"], 0) + each["bytes_sent"]
        sent = sum(by_class.get(rank["class"], 0) for rank in explained["ranks"])
        cells = [each.find(SVG + "title").text for each in self.page.figures()["traffic"].iter(SVG + "rect")
                 if each.find(SVG + "title") is not None]
        self.assertTrue(cells)
        units = {"B": 1, "KiB": 1024, "MiB": 1024 ** 2}
        shown = 0
        for cell in cells:
            match = re.fullmatch(r"(\d+) to (\d+): ([\d.]+) (B|KiB|MiB)", cell)
            self.assertNotEqual(match[1], match[2])
            shown += float(match[3]) * units[match[4]]
        self.assertAlmostEqual(shown / sent, 1, delta=0.02)

    def test_memory_of_every_class_is_the_plan(self):
        rows = self.page.rows()
        self.assertIn("ranks 0, 1", rows)
        self.assertIn("ranks 2, 3", rows)
        summary = events_of(self.records, "summary")[-1]
        for rank, planned in enumerate(summary["planned_peak_bytes"]):
            predicted, measured, difference = rows[f"memory of rank {rank}"]
            self.assertEqual(planned, summary["arena_peak_bytes"][rank])
            self.assertEqual(predicted, measured)
            self.assertEqual(difference, "+0.0 %")

    def test_prediction_stands_beside_measurement(self):
        summary = events_of(self.records, "summary")[-1]
        predicted, measured, difference = next([cell.text for cell in each][1:] for each in self.page.root.iter(HTML + "tr")
                                               if len(each) == 4 and each[0].text == "step")
        milliseconds = float(measured.split()[0])
        self.assertAlmostEqual(milliseconds, 1000 * summary["median_step_seconds"], delta=1e-3)
        error = 100 * (float(predicted.split()[0]) / milliseconds - 1)
        self.assertAlmostEqual(float(difference.split()[0]), error, delta=0.5)

    def test_a_log_alone_has_its_curves(self):
        lone = self.strata.folder / "lone"
        lone.mkdir()
        shutil.copy(self.strata.folder / "run.jsonl", lone)
        result = self.strata.run("report", lone, self.strata.folder / "lone.html")
        self.assertEqual(result.returncode, 0, result.stderr)
        page = Page(self.strata.folder / "lone.html")
        self.assertEqual(list(page.figures()), ["loss", "grad_norm", "tokens_per_second", "step_seconds"])
        self.assertIn("no checkpoint that has the configuration", page.text)

    def test_plans_are_compared(self):
        config = self.strata.folder / "run.toml"
        with_cluster = self.strata.folder / "with-cluster.toml"
        with_cluster.write_text(config.read_text() + '\n[cluster]\nbased_on = "two-core"\n')
        for arguments in ([config, "--cluster", "dgx-h100", "--nodes", "2"], [with_cluster]):
            printed = self.strata.run("plan", *arguments, "--vocab", "64", "--json")
            self.assertEqual(printed.returncode, 0, printed.stderr)
            plans = self.strata.folder / "plans.json"
            plans.write_text(printed.stdout)
            result = self.strata.run("report", plans, self.strata.folder / "plans.html", "--vocab", "64")
            self.assertEqual(result.returncode, 0, result.stderr)
            page = Page(self.strata.folder / "plans.html")
            rows = page.rows()
            for plan in json.loads(printed.stdout)["plans"]:
                self.assertEqual(rows[plan["plan"]][0], f"{1000 * plan['step_seconds']:.3f} ms")
                self.assertEqual(rows[plan["plan"]][-1], plan["bound"])
            self.assertEqual(list(page.figures())[:2], ["memory", "timeline"])

    def test_other_files_are_refused(self):
        other = self.strata.folder / "other.json"
        other.write_text('{"plans": 5, "cluster": "two-core"}')
        result = self.strata.run("report", other, self.strata.folder / "other.html")
        self.assertEqual(result.returncode, 2)
        self.assertIn("other.json': plans: found 5", result.stderr)
        self.assertEqual(self.strata.run("report", self.strata.folder / "none", "x.html").returncode, 2)

    def test_the_log_stays(self):
        log = self.strata.folder / "kept" / "kept.jsonl"
        log.parent.mkdir()
        shutil.copy(self.strata.folder / "run.jsonl", log)
        for run in (log, log.parent):
            result = self.strata.run("report", run, log)
            self.assertEqual(result.returncode, 2)
            self.assertIn("kept.jsonl', which is a file to read; accepted: another file", result.stderr)
            self.assertEqual(log.read_bytes(), (self.strata.folder / "run.jsonl").read_bytes())

    def test_a_browser_finds_no_error(self):
        browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if browser is None:
            self.skipTest("no chromium here, which would print the page's console")
        result = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                                 "--dump-dom", self.path.as_uri()], capture_output=True, text=True, timeout=120)
        self.assertIn('id="traffic"', result.stdout)
        self.assertNotIn("CONSOLE", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
