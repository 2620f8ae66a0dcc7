"""Log lines: text for a person at a terminal, JSON for a program. What was said is in neither."""

import json
import logging
import sys
import time

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``message``, and where there is one,
    ``session`` and ``error`` (a traceback)."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (session := getattr(record, "session", None)) is not None:
            line["session"] = session
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(level: int, *, text: bool) -> None:
    """Logs to standard error; ``text`` False: as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(TEXT) if text else JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler])
