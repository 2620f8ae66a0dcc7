"""Writes unicode_classes.inc: code points by general category and by case, from Python's own Unicode tables.

Run it in this folder with the Python whose tables are wanted: ``python generate_unicode_classes.py``.
"""

import sys
import unicodedata
from pathlib import Path


def ranges_of(category: str) -> list[tuple[int, int]]:
    """First and last code point of every run whose general category begins with ``category``."""
    ranges: list[tuple[int, int]] = []
    for code_point in range(sys.maxunicode + 1):
        if not unicodedata.category(chr(code_point)).startswith(category):
            continue
        if ranges and ranges[-1][1] == code_point - 1:
            ranges[-1] = (ranges[-1][0], code_point)
        else:
            ranges.append((code_point, code_point))
    return ranges


def case_ranges() -> list[tuple[int, int, int, int]]:
    """Runs of capitals with one small letter each, which has no other: first, last, step, distance."""
    runs: list[tuple[int, int, int, int]] = []
    for capital in range(sys.maxunicode + 1):
        small = chr(capital).lower()
        if len(small) != 1 or ord(small) == capital or small.upper() != chr(capital):
            continue
        distance = ord(small) - capital
        if runs and runs[-1][3] == distance and capital - runs[-1][1] <= 2:
            first, last, step, _ = runs[-1]
            if first == last or capital - last == step:
                runs[-1] = (first, capital, capital - last, distance)
                continue
        runs.append((capital, capital, 1, distance))
    return runs


def table(name: str, ranges: list[tuple[int, int]]) -> str:
    """A C++ array of ``ranges``, six to a line."""
    cells = [f"{{0x{first:X}, 0x{last:X}}}" for first, last in ranges]
    lines = ["    " + ", ".join(cells[start : start + 6]) for start in range(0, len(cells), 6)]
    return f"constexpr CodePointRange {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def case_table(name: str, runs: list[tuple[int, int, int, int]]) -> str:
    """A C++ array of ``runs``, four to a line."""
    cells = [f"{{0x{first:X}, 0x{last:X}, {step}, {distance}}}" for first, last, step, distance in runs]
    lines = ["    " + ", ".join(cells[start : start + 4]) for start in range(0, len(cells), 4)]
    return f"constexpr CaseRange {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def main() -> None:
    header = f"// Unicode {unicodedata.unidata_version}. Written by generate_unicode_classes.py.\n"
    text = header + table("letter_ranges", ranges_of("L")) + table("number_ranges", ranges_of("N"))
    text += case_table("case_ranges", case_ranges())
    Path("unicode_classes.inc").write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
