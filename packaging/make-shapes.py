#!/usr/bin/env python3
"""Draws shapes of ten classes as files of CIFAR-10's format: train.bin and test.bin.

Usage: make-shapes.py FOLDER [TRAINING [TEST]]. The defaults are 4000 and 1000 images of 32 x 32 pixels. A class is a
shape; its place, size and colours, and noise on all pixels, are drawn. The same numbers give the same files.
"""

import os
import random
import sys

SIDE = 32
# For each class, whether the shape covers a point (x, y), from -1 to 1 within its square.
SHAPES = [
    lambda x, y: x * x + y * y <= 1,                                     # disc
    lambda x, y: True,                                                   # square
    lambda x, y: abs(x) <= (y + 1) / 2,                                  # triangle
    lambda x, y: min(abs(x), abs(y)) <= 0.3,                             # cross
    lambda x, y: 0.4 <= x * x + y * y <= 1,                              # ring
    lambda x, y: abs(y) <= 0.35,                                         # horizontal bar
    lambda x, y: abs(x) <= 0.35,                                         # vertical bar
    lambda x, y: abs(x - y) <= 0.5,                                      # diagonal bar
    lambda x, y: max(abs(x), abs(y)) >= 0.65,                            # frame
    lambda x, y: (x > 0) == (y > 0),                                     # two quarters
]


def draw(generator, label):
    """One image as a record: its label, then the planes of red, green and blue."""
    radius = generator.uniform(6, 13)
    centre = [generator.uniform(radius, SIDE - radius) for _ in range(2)]
    background = [generator.randrange(256) for _ in range(3)]
    # Colours that are alike would hide the shape.
    foreground = [(value + generator.randrange(70, 186)) % 256 for value in background]
    covers = SHAPES[label]
    planes = [bytearray(), bytearray(), bytearray()]
    for row in range(SIDE):
        for column in range(SIDE):
            x, y = (column + 0.5 - centre[0]) / radius, (row + 0.5 - centre[1]) / radius
            colour = foreground if abs(x) <= 1 and abs(y) <= 1 and covers(x, y) else background
            noise = generator.randrange(-20, 21)
            for plane, value in zip(planes, colour):
                plane.append(min(255, max(0, value + noise)))
    return bytes([label]) + b"".join(planes)


def main(folder, training="4000", test="1000"):
    os.makedirs(folder, exist_ok=True)
    for name, count in (("train", int(training)), ("test", int(test))):
        generator = random.Random(name)
        with open(os.path.join(folder, name + ".bin"), "wb") as file:
            for index in range(count):
                file.write(draw(generator, index % len(SHAPES)))


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
