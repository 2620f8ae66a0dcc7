"""What the little model can hear: ten digits and forty command words, and the phrases they are said in."""

from random import Random

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COMMANDS = (
    "yes",
    "no",
    "on",
    "off",
    "up",
    "down",
    "left",
    "right",
    "front",
    "rear",
    "side",
    "center",
    "back",
    "forward",
    "go",
    "start",
    "stop",
    "pause",
    "resume",
    "cancel",
    "undo",
    "call",
    "open",
    "close",
    "save",
    "delete",
    "send",
    "new",
    "next",
    "line",
    "paragraph",
    "page",
    "file",
    "window",
    "document",
    "message",
    "recording",
    "volume",
    "period",
    "comma",
)
WORDS = DIGITS + COMMANDS

_VERBS = ("open", "close", "save", "delete", "send", "new", "next", "cancel", "call")
_OBJECTS = ("file", "window", "page", "line", "paragraph", "message", "document", "recording")
_PLACES = ("front", "rear", "side")
_SIDES = ("left", "right", "center")
_DIRECTIONS = ("back", "forward", "up", "down", "left", "right")
_NUMBERED = ("call", "page", "line", "file", "window", "volume")
_SINGLE = ("yes", "no", "stop", "start", "pause", "resume", "cancel", "undo", "period", "comma", "on", "off")


def digit_string(random: Random, shortest: int = 2, longest: int = 6) -> list[str]:
    """Digits, each as likely as another."""
    return [random.choice(DIGITS) for _ in range(random.randint(shortest, longest))]


def command(random: Random) -> list[str]:
    """One thing that somebody would say to a machine."""
    match random.randrange(8):
        case 0 | 1:
            return [random.choice(_VERBS), random.choice(_OBJECTS)]
        case 2:
            return [random.choice(("start", "stop", "pause", "resume", "save", "delete")), "recording"]
        case 3:
            return ["volume", random.choice(("up", "down", "on", "off"))]
        case 4:
            return [random.choice(_PLACES), random.choice(_SIDES)]
        case 5:
            return ["go", random.choice(_DIRECTIONS)]
        case 6:
            return [random.choice(_NUMBERED), *digit_string(random, 1, 3)]
        case _:
            return [random.choice(_SINGLE)]


def phrase(random: Random) -> list[str]:
    """What a voice says between two pauses: a command, digits, or one or two words at random."""
    match random.randrange(10):
        case 0 | 1 | 2 | 3 | 4:
            return command(random)
        case 5:
            return digit_string(random, 2, 4)
        case 6 | 7 | 8:
            return [random.choice(COMMANDS)]
        case _:
            return [random.choice(WORDS), random.choice(WORDS)]
