"""What the pages must name: all commands and their options, options of plugins, and keys of the JSON log."""
import json
import re
import subprocess

from spans import Command

# Options that every command has.
COMMON = ("--help", "-h")


class Complete:
    def __init__(self, source, samples, pages, fail):
        self.strata, self.samples, self.fail = samples.strata, samples, fail
        texts = {str(page.relative_to(source)): page.read_text() for page in pages}
        self.readme = texts["README.md"]
        # The reference of the configuration is made of the same tables as the help.
        self.all = "\n".join(text for name, text in texts.items() if name != "docs/configuration.md")

    def has(self, word):
        return re.search(rf"(?<![-\w]){re.escape(word)}(?![-\w])", self.all) is not None

    def commands(self, words=()):
        command = Command(self.strata, words)
        for name in command.commands:
            if not re.search(rf"^(?:mpirun .*)?strata +{' +'.join([*words, name])}\b", self.readme, re.M):
                self.fail("README.md", f"'strata {' '.join([*words, name])}' is not among the commands") \
                    if not Command(self.strata, (*words, name)).commands else None
            self.commands((*words, name))
        for option in command.options:
            if option not in COMMON and not self.has(option):
                self.fail("README.md, docs", f"no page names the option {option} of 'strata {' '.join(words)}'")

    def plugins(self):
        listed = subprocess.run([self.strata, "plugins", "list"], capture_output=True, text=True, check=True).stdout
        for name in re.findall(r"^(?:strategy|optimizer|dataset|model|communicator|device) +(\w+) ", listed, re.M):
            shown = subprocess.run([self.strata, "plugins", "show", name], capture_output=True, text=True, check=True)
            for option in re.findall(r"^  (\w+): ", shown.stdout, re.M):
                if not self.has(option):
                    self.fail("docs", f"no page names the option {option} of the plugin {name}")

    def log_keys(self):
        page = self.all
        for line in (self.samples.folder / "a.jsonl").read_text().splitlines():
            record = json.loads(line)
            for key in record:
                if f"`{key}`" not in page:
                    self.fail("docs/logging.md", f"no page names the key {key} of {record.get('event', 'a step')}")

    def check(self):
        self.commands()
        self.plugins()
        self.log_keys()
