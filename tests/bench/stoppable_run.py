"""Training runs that take turns step by step, so that what slows a shared machine down meets all of them."""
import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path


class StoppableRun:
    """A training run that makes one step when it is told to."""

    def __init__(self, strata, config, folder, options):
        """`options`: overrides of the configuration. `folder`: an empty folder of the run."""
        options = {"run.steps": 10**6, "run.output": os.path.join(folder, "run"), "device.threads": 1, **options}
        command = [strata, "train", config, "--log-json", os.path.join(folder, "log.jsonl")]
        for key, value in options.items():
            command += ["--set", f"{key}={value}"]
        Path(folder, "log.jsonl").touch()
        self.messages = open(os.path.join(folder, "messages.txt"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdout=self.messages, stderr=subprocess.STDOUT)
        self.log = open(os.path.join(folder, "log.jsonl"), encoding="utf-8")
        self.unread = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def step(self):
        """\\return seconds until a step's line is in the log, and the line. The run is stopped before and after."""
        self.process.send_signal(signal.SIGCONT)
        begin = time.monotonic()
        line = self._next_step()
        seconds = time.monotonic() - begin
        self.process.send_signal(signal.SIGSTOP)
        return seconds, line

    def _next_step(self):
        while True:
            self.unread += self.log.readline()
            if self.unread.endswith("\n"):
                line, self.unread = json.loads(self.unread), ""
                if "event" not in line:
                    return line
            elif self.process.poll() is not None:
                self.messages.seek(0)
                raise SystemExit(f"the run ended before its time:\n{self.messages.read()}")
            else:
                time.sleep(0.001)


def take_turns(strata, config, folder, options, warmup, steps):
    """Runs that are alive at once, of which every other one begins a round. `options`: the overrides of each run, by its
    name. Each has an own folder in `folder`, and makes `warmup` steps first. Yields (name, seconds, line) for each step
    of `steps` rounds."""
    with contextlib.ExitStack() as stack:
        runs = []
        for name, own_options in options.items():
            own = os.path.join(folder, str(name))
            os.mkdir(own)
            run = stack.enter_context(StoppableRun(strata, config, own, own_options))
            runs.append((name, run))
            for _ in range(warmup):
                run.step()
        for turn in range(steps):
            for name, run in runs if turn % 2 == 0 else reversed(runs):
                yield (name, *run.step())
