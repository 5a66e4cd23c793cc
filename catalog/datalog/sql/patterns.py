"""Patterns of `match`: what std::regex reads, as Souffle asks it, written for DuckDB's RE2.

The grammar is that of ECMAScript as libstdc++ has it: quantifiers may follow each other, `[]` is
the empty class, a brace that is no interval is an error. Where both would not mean the same, a
pattern is translated or, for what RE2 can't do, refused: look-ahead, back-references and the like.
"""

from __future__ import annotations

import re

FOREIGN = "?"  # stands for a pattern that RE2 can't match: no pattern of its own
MOST_REPEATS = 1000  # RE2 counts no further

_CLASSES = frozenset(
    [
        *("alnum", "alpha", "blank", "cntrl", "digit", "graph"),
        *("lower", "print", "punct", "space", "upper", "xdigit"),
    ]
)
_SHORT = {"d": "digit", "w": "word", "s": "space"}
_CONTROLS = {"0": "\0", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NOTHING, _ANYTHING = r"[^\x00-\x{10FFFF}]", "(?s:.)"
_INTERVAL = re.compile(r"\{([0-9]+)(,)?([0-9]*)\}")


class InvalidPatternError(ValueError):
    """What std::regex takes for no pattern: it matches nothing, and nor does its negation."""


class ForeignPatternError(ValueError):
    """What std::regex can match and RE2 can't."""


def translated(pattern: str) -> str:
    """Write a pattern for RE2; raises InvalidPatternError or ForeignPatternError."""
    return _Reader(pattern).pattern()


def translated_or_none(pattern: str) -> str | None:
    """Write a pattern for RE2; None where it is none, FOREIGN where RE2 can't match it."""
    try:
        return translated(pattern)
    except InvalidPatternError:
        return None
    except ForeignPatternError:
        return FOREIGN


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.out: list[str] = []

    def pattern(self) -> str:
        """Read terms and groups, these on a stack instead of by recursion."""
        starts: list[int] = []  # where in `out` the open groups begin
        while self.position < len(self.text):
            letter = self.text[self.position]
            if letter == "(":
                starts.append(len(self.out))
                self.out.append("(?:")
                self.position += 1
                if self._takes("?:"):
                    continue
                if self.text.startswith(("?=", "?!"), self.position):
                    raise ForeignPatternError("look-ahead")
            elif letter == ")":
                if not starts:
                    raise InvalidPatternError("a parenthesis closes nothing")
                self.position += 1
                start = starts.pop()
                self.out[start:] = ["".join(self.out[start:]) + ")"]
                self._quantifiers()
            elif letter == "|":
                self.out.append("|")
                self.position += 1
            elif letter in "^$":
                self.out.append(letter)
                self.position += 1
            elif letter in "*+?{":
                raise InvalidPatternError(f"{letter} has nothing to repeat")
            elif self.text[self.position : self.position + 2] in (r"\b", r"\B"):
                self.out.append(self.text[self.position : self.position + 2])
                self.position += 2
            else:
                self.out.append(self._atom())
                self._quantifiers()
        if starts:
            raise InvalidPatternError("a parenthesis is never closed")
        return "".join(self.out)

    def _takes(self, word: str) -> bool:
        if self.text.startswith(word, self.position):
            self.position += len(word)
            return True
        return False

    def _atom(self) -> str:
        if self._takes("."):
            return r"[^\n\r]"
        if self._takes("["):
            return self._bracket()
        if self._takes("\\"):
            letter = self._escaped()
            if letter in _SHORT:
                return f"[[:{_SHORT[letter]}:]]"
            if letter.lower() in _SHORT:
                return f"[^[:{_SHORT[letter.lower()]}:]]"
            return self._character(letter)
        self.position += 1
        return _literal(self.text[self.position - 1])

    def _escaped(self) -> str:
        if self.position >= len(self.text):
            raise InvalidPatternError("a backslash ends the pattern")
        self.position += 1
        return self.text[self.position - 1]

    def _character(self, letter: str) -> str:
        """Read what follows a backslash and a letter as one character."""
        if letter in _CONTROLS:
            return _literal(_CONTROLS[letter])
        if letter in "xu":
            count = 2 if letter == "x" else 4
            digits = self.text[self.position : self.position + count]
            if not re.fullmatch(f"[0-9A-Fa-f]{{{count}}}", digits):
                raise InvalidPatternError("hexadecimal digits are missing")
            if int(digits, 16) > 127:
                raise ForeignPatternError("a byte that is no character")
            self.position += count
            return _literal(chr(int(digits, 16)))
        if letter in "123456789":
            raise self._reference()
        if letter == "c":
            raise ForeignPatternError("a control character")
        return _literal(letter)

    def _reference(self) -> ValueError:
        digits = re.match("[0-9]+", self.text[self.position - 1 :])
        number = int(digits.group()) if digits else 0
        before = self.text[: self.position - 2]
        groups = len(re.findall(r"\((?!\?)", re.sub(r"\\.", "", before)))
        if number > groups:
            return InvalidPatternError(f"there is no group {number}")
        return ForeignPatternError("a back-reference")

    def _quantifiers(self) -> None:
        """Wrap the last term into what repeats it, as often as it stands there."""
        while self.position < len(self.text) and self.text[self.position] in "*+?{":
            interval = _INTERVAL.match(self.text, self.position)
            if self.text[self.position] != "{":
                word = self.text[self.position]
            elif interval is None:
                raise InvalidPatternError("a brace that is no interval")
            else:
                word = interval.group()
                least, most = int(interval[1]), int(interval[3]) if interval[3] else None
                if most is not None and most < least:
                    raise InvalidPatternError("an interval that ends before it begins")
                if max(least, most or 0) > MOST_REPEATS:
                    raise ForeignPatternError("an interval above 1000")
            self.position += len(word)
            lazy = "?" if self._takes("?") else ""
            self.out[-1] = f"(?:{self.out[-1]}){word}{lazy}"

    # -- classes

    def _bracket(self) -> str:
        negated = self._takes("^")
        parts: list[str] = []
        while True:
            if self.position >= len(self.text):
                raise InvalidPatternError("a class is never closed")
            if self._takes("]"):
                break
            parts.append(self._element(not parts))
        if not parts:
            return _ANYTHING if negated else _NOTHING
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _element(self, first: bool) -> str:
        """Read a character, a range of characters or a class."""
        start, is_class = self._character_or_class()
        if start == r"\-" and not first and not self.text.startswith("]", self.position):
            raise ForeignPatternError("a hyphen amid a class")
        rest = self.text[self.position : self.position + 2]
        if not rest.startswith("-") or rest == "-]":
            return start
        if is_class:
            raise InvalidPatternError("a range from a class")
        self.position += 1
        if self.position >= len(self.text):
            raise InvalidPatternError("a class is never closed")
        end, is_class = self._character_or_class()
        if is_class:
            raise InvalidPatternError("a range to a class")
        if _value(start) > _value(end):
            raise InvalidPatternError("a range that ends before it begins")
        return f"{start}-{end}"

    def _character_or_class(self) -> tuple[str, bool]:
        if self.text.startswith(("[.", "[="), self.position):
            raise ForeignPatternError("a collating element")
        if self._takes("[:"):
            end = self.text.find(":]", self.position)
            name = self.text[self.position : end].lower() if end >= 0 else ""
            if name not in _CLASSES and name not in _SHORT:
                raise InvalidPatternError("a class of no name")
            self.position = end + 2
            return f"[:{_SHORT.get(name, name)}:]", True
        if self._takes("\\"):
            letter = self._escaped()
            if letter in _SHORT:
                return f"[:{_SHORT[letter]}:]", True
            if letter.lower() in _SHORT:
                return f"[:^{_SHORT[letter.lower()]}:]", True
            if letter == "b":
                return _literal("\b"), False
            if letter in "123456789B":
                raise ForeignPatternError("an escape inside of a class")
            return self._character(letter), False
        self.position += 1
        return _literal(self.text[self.position - 1]), False


def _literal(letter: str) -> str:
    if letter.isalnum() or ord(letter) > 127:
        return letter
    return f"\\x{ord(letter):02x}" if letter < " " or letter == "\x7f" else f"\\{letter}"


def _value(literal: str) -> int:
    if literal.startswith("\\x"):
        return int(literal[2:], 16)
    return ord(literal[-1])
