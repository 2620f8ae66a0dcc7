"""A microphone without hardware: a PulseAudio of its own, whose null sink is heard by a source.

What is played into it comes out bit for bit. PortAudio reaches it as the device ``pulse``.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEVICE = "pulse"
SAMPLE_RATE = 16000
_SINK = ("module-null-sink", "sink_name=speaker", f"rate={SAMPLE_RATE}", "channels=1", "format=s16le")
_SOURCE = ("module-remap-source", "source_name=microphone", "master=speaker.monitor")


class VirtualMicrophone:
    """``environment`` is what a process needs to find it."""

    def __init__(self, home: Path) -> None:
        runtime = home / "run"
        runtime.mkdir(mode=0o700)
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(runtime),
            "PULSE_SERVER": f"unix:{runtime}/pulse/native",
            "PULSE_SOURCE": "microphone",
        }

    def plug_in(self) -> None:
        """The device is there; sound may take two seconds to come."""
        self._control("load-module", *_SINK)
        self._control("load-module", *_SOURCE)

    def unplug(self) -> None:
        """The device disappears while it may be in use."""
        self._control("unload-module", "module-remap-source")
        self._control("unload-module", "module-null-sink")

    def player(self, file: Path) -> list[str]:
        """The command that plays ``file`` into it, in real time."""
        return ["paplay", "--device=speaker", str(file)]

    def start(self) -> None:
        """Starts the sound service; returns when it is ready."""
        self._run(
            "pulseaudio", "-n", "--daemonize=yes", "--exit-idle-time=-1", "--load=module-native-protocol-unix"
        )

    def stop(self) -> None:
        """Ends the sound service."""
        self._run("pulseaudio", "--kill")

    def _control(self, *command: str) -> None:
        self._run("pactl", *command)

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")


@contextmanager
def virtual_microphone(home: Path) -> Iterator[VirtualMicrophone]:
    """A microphone that is plugged in, for as long as the context lasts; ``home`` is an empty folder."""
    microphone = VirtualMicrophone(home)
    microphone.start()
    try:
        microphone.plug_in()
        yield microphone
    finally:
        microphone.stop()
