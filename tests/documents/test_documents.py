"""Runs the commands of the README and of docs/, and checks the fragments of configurations in them.

Usage: python3 test_documents.py SOURCE BUILD [PAGE]...
A block of shell commands runs as the page has it, in a folder with the files of samples.py, one folder for each page.
exceptions.py says what is replaced, and what is left out for which reason.
"""
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import blocks
import exceptions
import fragments
from complete import Complete
from samples import Samples
from spans import Spans

SECONDS = 300
DEFAULTS = {"betas": [0.9, 0.95], "weight_decay": 0.1, "clip": 1.0}


class Documents:
    def __init__(self, source, build, pages, folder):
        self.source, self.build, self.folder = source, build, folder
        self.pages = [page for page in blocks.pages_of(source) if not pages or str(page.relative_to(source)) in pages]
        self.whole = not pages
        self.samples = Samples(folder / "samples", source, build)
        self.spans = Spans(source, build, self.fail)
        self.used, self.failures, self.counts = set(), [], {"commands": 0, "left out": 0, "fragments": 0}

    def fail(self, place, what):
        self.failures.append(place)
        print(f"{place}: {what}", flush=True)

    def matches(self, row, text):
        """Whether the pattern of a row of exceptions.py is in the text. Rows that match nothing fail in the end."""
        if not re.search(row[0], text):
            return False
        self.used.add(row)
        return True

    def replaced(self, command):
        for row in (*exceptions.PLACEHOLDERS, *exceptions.SHORTER):
            if self.matches(row, command):
                command = re.sub(row[0], row[1], command)
        return command

    def reason_to_leave_out(self, command):
        reasons = [row[1] for row in exceptions.LEFT_OUT if self.matches(row, command)]
        for program, needed in (("mpirun", "mpirun"), ("jq", "jq"), ("tensorboard", "tensorboard")):
            if re.search(rf"\b{program} ", command) and not shutil.which(needed):
                reasons.append(f"no {needed} on this machine")
        for plugin in ("gloo", "mpi"):
            is_built = (self.build / f"lib/strata/plugins/communicator_{plugin}.so").exists()
            if re.search(rf"\b{plugin}\b", self.replaced(command)) and not is_built:
                reasons.append(f"no plugin {plugin} in this build")
        return reasons[0] if reasons else ""

    def run_block(self, block, folder):
        script = ["set -euo pipefail"]
        for place, command in blocks.commands_of(block):
            if reason := self.reason_to_leave_out(command):
                self.counts["left out"] += 1
                continue
            self.counts["commands"] += 1
            script += [f"echo '+ {place}' >&2", self.replaced(command)]
        if len(script) == 1:
            return
        try:
            result = subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=self.samples.environment(),
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, errors="replace", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.fail(block.place, f"did not end within {SECONDS} s")
            return
        if result.returncode:
            place = re.findall(r"^\+ (\S+)$", result.stdout, re.M)
            self.fail(place[-1] if place else block.place, f"exit code {result.returncode}:\n{result.stdout[-2000:]}")

    def check_fragment(self, block, folder, files):
        rows = [row for row in exceptions.FRAGMENTS_LEFT_OUT if re.search(row[1], block.text) and row[0] == block.page]
        self.used.update(rows)
        try:
            configuration = tomllib.loads(block.text)
        except tomllib.TOMLDecodeError as error:
            self.fail(block.place, f"no TOML: {error}")
            return
        if keys := [key for key, value in configuration.items() if not isinstance(value, (dict, list))]:
            self.fail(block.place, f"found the key '{keys[0]}' in no section")
            return
        if rows:
            self.counts["left out"] += 1
            return
        self.counts["fragments"] += 1
        self.compare_with_shipped(block, configuration)
        path = folder / "fragment.toml"
        file = fragments.file_of(block)
        command = [self.samples.strata, "check", path]
        if set(configuration) == {"cluster"}:
            cluster = folder / "fragment-cluster.toml"
            cluster.write_text(block.text)
            path.write_text(fragments.completed({}, block.page))
            command += ["--cluster", cluster]
        else:
            path.write_text(files[file] if file else fragments.completed(configuration, block.page))
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if result.returncode:
            self.fail(block.place, f"strata check: {result.stderr}")

    def compare_with_shipped(self, block, configuration):
        """A copy of a file of configs/ says the same. It may leave out keys of the optimizer that are defaults."""
        shipped = self.source / f"configs/{configuration.get('run', {}).get('name')}.toml"
        if fragments.file_of(block) or not shipped.exists():
            return
        whole = tomllib.loads(shipped.read_text())
        whole["optimizer"] = {key: value for key, value in whole["optimizer"].items()
                              if key in configuration["optimizer"] or DEFAULTS.get(key) != value}
        if whole != configuration:
            self.fail(block.place, f"differs from {shipped.name}: {configuration} instead of {whole}")

    def run_page(self, page):
        name = str(page.relative_to(self.source))
        self.spans.check_page(page, blocks.spans_of(self.source, page))
        found = blocks.blocks_of(self.source, page)
        for block in found:
            if block.language not in blocks.LANGUAGES:
                self.fail(block.place, f"a block of '{block.language}'; accepted: {', '.join(blocks.LANGUAGES)}")
        elsewhere = [row for row in exceptions.ELSEWHERE if row[0] == name]
        self.used.update(elsewhere)
        found = [block for block in found if block.language in ("sh", "toml")]
        if elsewhere or not found:
            return
        folder = self.samples.copy(self.folder / name.replace("/", "-"))
        files = fragments.named_files(found)
        for file, text in files.items():
            (folder / file).write_text(text)
        for block in found:
            if block.language == "toml":
                self.check_fragment(block, folder, files)
            else:
                self.run_block(block, folder)
        shutil.rmtree(folder)

    def require_all_exceptions(self):
        for table in ("PLACEHOLDERS", "SHORTER", "LEFT_OUT", "ELSEWHERE", "FRAGMENTS_LEFT_OUT"):
            for row in getattr(exceptions, table):
                if row not in self.used:
                    self.fail("exceptions.py", f"{table}: nothing in a page matches {row}")
                for test in re.findall(r"ctest (\w+)", f"ctest {row[1]}" if table == "ELSEWHERE" else row[-1]):
                    self.spans.check_test("exceptions.py", f"^{test}$")

    def run(self):
        for page in self.pages:
            self.run_page(page)
        if self.whole:
            Complete(self.source, self.samples, self.pages, self.fail).check()
            self.require_all_exceptions()
            if self.counts["commands"] < 50 or self.counts["fragments"] < 30:
                self.fail("README.md, docs", f"few commands and fragments are found: {self.counts}")
        print(", ".join(f"{count} {what}" for what, count in self.counts.items()))
        return 1 if self.failures else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(Documents(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3:], Path(temporary)).run())
