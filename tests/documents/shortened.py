"""Stands for `strata` while commands of pages run: does the same, for a step or a few tokens."""
import os

# Options with a number that is replaced, by command.
NUMBERS = {"train": {"--steps": "1"}, "launch": {"--steps": "1"}, "replay": {"--steps": "1"}, "generate": {"--tokens": "4"}}
DEFAULTS = {"train": ["--steps", "1"], "launch": ["--steps", "1"], "generate": ["--tokens", "4"]}


def shortened(words):
    command = words[0] if words else ""
    numbers, added = NUMBERS.get(command, {}), list(DEFAULTS.get(command, []))
    result = list(words)
    for place, word in enumerate(words[:-1]):
        if word in numbers:
            result[place + 1] = numbers[word]
            added = []
    # A page may run one command several times.
    if command in ("train", "launch", "tokenize") and not {"--resume", "--overwrite"} & set(words):
        added.append("--overwrite")
    return result + added


def run(strata, words):
    os.execv(strata, [strata, *shortened(words)])
