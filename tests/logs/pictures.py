"""Measures the texts of a picture: where they lie, by estimated widths of their letters."""
import re

SVG = "{http://www.w3.org/2000/svg}"
# The size of letters by class; the widest one of common fonts has about this share of it, on average of a text.
SIZES = {"title": 15, "label": 12, "number": 12}
USUAL_SIZE = 13
SHARE = 0.57


def text_boxes(root):
    """The texts with their boxes (left, top, right, bottom)."""
    found = []
    for each in root.iter(SVG + "text"):
        classes = each.get("class").split()
        size = next((SIZES[name] for name in classes if name in SIZES), USUAL_SIZE)
        length = SHARE * size * len(each.text)
        turned = re.match(r"translate\(([\d.]+),([\d.]+)\) rotate\(-90\)", each.get("transform", ""))
        if turned:
            x, y = map(float, turned.groups())
            box = (x - 0.8 * size, y - length / 2, x + 0.2 * size, y + length / 2)
        else:
            x, y = float(each.get("x")), float(each.get("y"))
            is_middle = "middle" in classes or "number" in classes
            shift = length / 2 if is_middle else length if "end" in classes else 0
            box = (x - shift, y - 0.8 * size, x - shift + length, y + 0.2 * size)
        found.append((each.text, box))
    return found


def faults(root):
    """What is wrong with the texts of a picture: those outside of the frame, and those that overlap."""
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = text_boxes(root)
    result = [f"outside of the frame: {text!r} {box}" for text, box in boxes
              if not (0 <= box[0] and 0 <= box[1] and box[2] <= width and box[3] <= height)]
    # Only neighbours along x can overlap.
    boxes.sort(key=lambda each: each[1][0])
    for i, (one, a) in enumerate(boxes):
        for other, b in boxes[i + 1:]:
            if b[0] >= a[2]:
                break
            if a[1] < b[3] and b[1] < a[3]:
                result.append(f"{one!r} and {other!r} overlap: {a} {b}")
    return result
