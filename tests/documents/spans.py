"""Checks what pages name within their sentences: commands with their options, tests, and files of the sources."""
import glob
import json
import re
import shlex
import subprocess

# Commands for programs, which no help lists.
HIDDEN = ("complete",)
FOLDERS = ("configs", "docs", "host", "models", "packaging", "plugins", "sdk", "testing", "tests")


class Command:
    """A command of strata, by what its help says."""

    def __init__(self, strata, words):
        text = subprocess.run([strata, *words, "--help"], capture_output=True, text=True, check=True).stdout
        before, _, commands = text.partition("Subcommands:")
        self.commands = set(re.findall(r"^  (\w+)", commands, re.M))
        self.required = len(re.findall(r"^  [A-Z]\S* .*REQUIRED", before, re.M))
        # Whether an option takes a value.
        self.options = {name: bool(value) for names, value in re.findall(r"^  ((?:-\w,)?--[-\w]+)( [A-Z]\S*)?", before, re.M)
                        for name in names.split(",")}


class Spans:
    def __init__(self, source, build, fail):
        self.source, self.strata, self.fail = source, build / "bin/strata", fail
        listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True)
        self.tests = [test["name"] for test in json.loads(listed.stdout)["tests"]]
        sources = "".join(path.read_text() for path in source.glob("tests/**/*.cpp"))
        self.cases = {f"{suite}.{case}" for suite, case in re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", sources, re.M)}
        self.lists = "".join(path.read_text() for path in source.glob("tests/*/CMakeLists.txt"))
        self.known = {}

    def command(self, *words):
        if words not in self.known:
            self.known[words] = Command(self.strata, words)
        return self.known[words]

    def check_command(self, place, span):
        words = shlex.split(span)[1:]
        path, command = (), self.command()
        given, skips = 0, False
        for word in words:
            name, _, value = word.partition("=")
            if skips:
                skips = False
            elif word in command.commands and not given:
                path = (*path, word)
                command = self.command(*path)
            elif name.startswith("--"):
                if name not in command.options:
                    return self.fail(place, f"`{span}`: 'strata {' '.join(path)}' has no option {name}")
                skips = command.options[name] and not value
            elif not path and word not in HIDDEN and word.isalpha() and word.islower():
                return self.fail(place, f"`{span}`: there is no command '{word}'")
            else:
                given += word != "…"
        if 0 < given < command.required:
            self.fail(place, f"`{span}`: 'strata {' '.join(path)}' takes {command.required} arguments")

    def check_test(self, place, pattern):
        # Some tests exist on some machines only.
        is_known = any(re.search(pattern, test) for test in self.tests)
        if not is_known and not re.search(rf"NAME {pattern.strip('^$')}\b", self.lists):
            self.fail(place, f"there is no ctest '{pattern}'")

    def check_path(self, place, span):
        braces = re.match(r"(.*)\{([^{}]*)\}(.*)", span)
        for each in braces[2].split(",") if braces else [""]:
            path = f"{braces[1]}{each}{braces[3]}" if braces else span
            if not glob.glob(str(self.source / path)):
                self.fail(place, f"there is no file '{path}'")

    def check(self, place, span):
        if re.fullmatch(r"[A-Z]\w+\.[A-Z][a-z]\w+", span) and span not in self.cases:
            self.fail(place, f"there is no test case '{span}'")
        elif span.startswith("strata ") and "|" not in span:
            self.check_command(place, span)
        elif re.fullmatch(rf"({'|'.join(FOLDERS)})/[-\w./*{{}},]*", span) and not re.search(r"NAME|\bmine\b", span):
            self.check_path(place, span)

    def check_page(self, page, spans):
        for place, span in spans:
            self.check(place, span)
        name = page.relative_to(self.source)
        text = page.read_text()
        for pattern in re.findall(r"\bctest\b.* -R '?([^'`\s]+)", text):
            self.check_test(name, pattern)
        for names in re.findall(r"ctests?\s+(`\w+`(?:(?:, | and )`\w+`)*)", text):
            for test in re.findall(r"\w+", names.replace("and", "")):
                self.check_test(name, f"^{test}")
