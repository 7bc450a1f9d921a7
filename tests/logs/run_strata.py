"""Small runs of the program under test."""
import json
import pathlib
import subprocess

TEXT = "".join(f"line {i * i % 97} of the text\n" for i in range(120))

CONFIGURATION = """
[run]
steps = {steps}
seed = 11
output = "{output}"
checkpoint_every = 2
keep_checkpoints = 0
eval_every = 2
[model]
plugin = "gpt2"
layers = 4
heads = 2
embed = 16
context = 8
[data]
path = "{folder}/text.txt"
validation = 0.1
[batch]
global = 8
micro = 2
[optimizer]
lr = 1e-2
clip = 0.5
"""


class Strata:
    """The program, with a folder for its files."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = pathlib.Path(folder)
        (self.folder / "text.txt").write_text(TEXT)

    def run(self, *arguments):
        """The result of a command."""
        return subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True)

    def train(self, name, *settings, steps=8, arguments=()):
        """Trains to the output folder `name` with a log beside it. Returns the folder and the log's records."""
        output = self.folder / name
        log = self.folder / f"{name}.jsonl"
        file = self.folder / f"{name}.toml"
        file.write_text(CONFIGURATION.format(steps=steps, output=output, folder=self.folder))
        options = [word for each in settings for word in ("--set", each)]
        result = self.run("train", file, "--log-json", log, *options, *arguments)
        assert result.returncode == 0, result.stderr
        return output, [json.loads(line) for line in log.read_text().splitlines()]


def steps_of(records):
    return [each for each in records if "event" not in each]


def events_of(records, event):
    return [each for each in records if each.get("event") == event]
