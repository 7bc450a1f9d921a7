"""The blocks of code in a page, and the commands in a block of shell."""
import re
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("sh", "toml", "json", "text", "console", "diff", "python", "cpp", "cmake")


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def pages_of(source):
    return [source / "README.md", *sorted((source / "docs").rglob("*.md"))]


def blocks_of(source, page):
    """All blocks of a page in their order. The line is that of the block's first line."""
    found, opened = [], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = re.match(r" *```(\w*)\s*$", line)
        if fence and opened is None:
            opened = Block(str(page.relative_to(source)), number + 1, fence[1], "")
        elif fence:
            found.append(opened)
            opened = None
        elif opened:
            opened.text += line + "\n"
    return found


def commands_of(block):
    """The commands of a block of shell, with their places. A loop is one command, and so is a line that goes on."""
    found, parts, depth = [], [], 0
    for number, line in enumerate(block.text.splitlines(), block.line):
        if not parts:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            first = number
        parts.append(line)
        depth += bool(re.match(r"\s*for ", line)) - bool(re.match(r"\s*done\b", line))
        if depth == 0 and not line.endswith("\\"):
            found.append((f"{block.page}:{first}", "\n".join(parts)))
            parts = []
    return found


def spans_of(source, page):
    """Code within the sentences of a page: (place, text)."""
    inside = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if re.match(r" *```", line):
            inside = not inside
        elif not inside:
            for span in re.findall(r"`([^`]+)`", line):
                yield f"{page.relative_to(source)}:{number}", span
