"""``stenod serve`` that never sheds load: what it tells does not depend on how busy the machine is."""

import sys

from stenod import cli, scheduler
from stenod.overload import LADDER, Ladder

if __name__ == "__main__":
    scheduler.Ladder = lambda: Ladder(LADDER[:1])  # type: ignore[assignment, misc]
    sys.exit(cli.main(["serve", *sys.argv[1:]]))
