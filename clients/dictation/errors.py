"""What can go wrong with dictation; each message is one line that says why, and what to do."""


class DictationError(Exception):
    """Base of those here."""


class CannotType(DictationError):
    """Something cannot be typed or deleted."""


class CannotUndo(DictationError):
    """What was typed must not be deleted now."""


class CannotControl(DictationError):
    """Dictation cannot be told what to do."""
