"""Every setting and its default: the one table.

Sources, first one wins: ``--option``; ``STENOD_*`` in the environment (nested ``__``); ``--config FILE``;
``stenod.toml`` in the user's configuration folder; ``/etc/stenod/stenod.toml``.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings import (
    SettingsError as SourceError,
)

SYSTEM_FILE = Path("/etc/stenod/stenod.toml")
USER_FILE = Path(platformdirs.user_config_dir("stenod")) / "stenod.toml"

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SHORTEST_SILENCE_MS, LONGEST_SILENCE_MS = 100, 10000
"""What may be asked to end an utterance."""
CHANNEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"

Encoding = Literal["s16le", "s24le", "s32le", "f32le", "u8", "mulaw", "alaw"]
Task = Literal["transcribe", "translate"]


class SettingsError(Exception):
    """Settings that cannot be used; the message has one line per fault, each naming its key."""


class Section(BaseModel):
    """Base of a section: frozen, and a key that does not exist is an error.

    What stands below a key is its description in ``configs/stenod.toml``: run ``tools/example_settings.py``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Server(Section):
    """Where the daemon listens, and how it treats connections."""

    host: str = "127.0.0.1"
    """Address to listen on; one that other machines can reach wants ``tokens``."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8790
    """Port; 0: any free one."""
    allow_public: bool = False
    """Listen on an address other machines can reach, although there is no authentication."""
    origins: tuple[str, ...] = ()
    """Browser origins that may connect, besides the daemon's own."""
    tokens: Annotated[Path | None, Field(examples=["/etc/stenod/tokens.json"])] = None
    """The file of those who may connect (``stenod tokens``); left out: everybody may."""
    tls_certificate: Annotated[Path | None, Field(examples=["/etc/stenod/certificate.pem"])] = None
    """PEM file with the certificate and those above it; left out: connections are not encrypted."""
    tls_key: Annotated[Path | None, Field(examples=["/etc/stenod/key.pem"])] = None
    """PEM file with its key."""
    ping_s: Annotated[float, Field(gt=0)] = 20.0
    """Seconds between two pings."""
    idle_s: Annotated[float, Field(gt=0)] = 300.0
    """A client that answers no ping for so many seconds is gone."""
    resume_for_s: Annotated[float, Field(ge=0)] = 120.0
    """A sender whose connection was lost may come back for so many seconds; 0: its session ends."""
    shutdown_deadline_s: Annotated[float, Field(gt=0)] = 20.0
    """Seconds that open sessions have to tell their finals when the daemon stops."""

    @property
    def url(self) -> str:
        """Where this machine's daemon is spoken to."""
        return f"{'ws' if self.tls_certificate is None else 'wss'}://{self.host}:{self.port}"


class Engine(Section):
    """The model, and how much of the machine it may use."""

    model: str = "whisper-base"
    """A name from ``stenod models list``, or the path of a GGUF file."""
    threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Compute threads of one worker; 0: as many as the process may use."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """Inference threads, each with ``threads`` compute threads."""
    batch: Annotated[int, Field(ge=1, le=64)] = 8
    """Streams stepped together at most."""
    decode_deadline_s: Annotated[float, Field(gt=0)] = 30.0
    """A computation that takes longer, in seconds, is stuck, and aborted."""


class Audio(Section):
    """What a sender that declares nothing sends."""

    encoding: Encoding = "s16le"
    """Or s24le, s32le, f32le, u8, mulaw, alaw."""
    sample_rate: Annotated[int, Field(ge=8000, le=192000)] = 16000
    """In Hz."""
    channels: Annotated[int, Field(ge=1, le=8)] = 1
    """They are mixed."""


class Segmentation(Section):
    """How speech is found and cut into utterances."""

    vad_mode: Annotated[int, Field(ge=0, le=3)] = 2
    """0: everything may be speech; 3: only what certainly is."""
    preroll_ms: Annotated[int, Field(ge=0, le=2000)] = 300
    """Milliseconds before the first sound of speech that belong to the utterance."""
    silence_ms: Annotated[int, Field(ge=SHORTEST_SILENCE_MS, le=LONGEST_SILENCE_MS)] = 1000
    """Milliseconds of silence that end an utterance."""
    max_utterance_s: Annotated[float, Field(ge=5, le=28)] = 25.0
    """A longer utterance, in seconds, is cut at its best pause."""


class Session(Section):
    """What a session does unless its sender says otherwise."""

    language: Annotated[str | None, Field(examples=["en"])] = None
    """ISO code; left out: detected, and kept once it is certain."""
    task: Task = "transcribe"
    """Or translate, into English."""
    prompt: Annotated[str, Field(max_length=2000)] = ""
    """Names and spellings that may occur."""
    partials: bool = True
    """Tell tentative text."""
    words: bool = False
    """Tell each word's times and confidence."""
    step_ms: Annotated[int, Field(ge=100, le=5000)] = 400
    """A hypothesis that may commit is made once per so many milliseconds of audio."""


class Limits(Section):
    """Bounds; what goes beyond is refused or slowed down, never dropped."""

    sessions: Annotated[int, Field(ge=1)] = 32
    """Sources at the same time."""
    client_sessions: Annotated[int, Field(ge=0)] = 0
    """Sessions of one client, which is a token or, without, an address; 0: as many as there may be."""
    messages_per_s: Annotated[float, Field(ge=10)] = 1000.0
    """Frames, audio among them, that a sender may send in a second; a faster one is slowed down."""
    channels: Annotated[int, Field(ge=1)] = 256
    """Channels, in use or remembered."""
    subscribers: Annotated[int, Field(ge=1)] = 1000
    """Readers of channels."""
    buffer_s: Annotated[float, Field(ge=1)] = 10.0
    """Seconds of one session's audio that may wait; a faster sender is slowed down."""
    frame_bytes: Annotated[int, Field(ge=1 << 10)] = 1 << 20
    """The largest websocket frame."""
    upload_mb: Annotated[float, Field(gt=0)] = 200.0
    """The largest recording that is taken over HTTP, with its form."""
    replay_events: Annotated[int, Field(ge=16)] = 4096
    """Numbered events that a channel remembers."""
    subscriber_queue: Annotated[int, Field(ge=16)] = 1024
    """Numbered events that may wait for one subscriber."""


class Journal(Section):
    """What the daemon keeps of what it told."""

    enabled: bool = True
    """False: nothing is kept."""
    folder: Annotated[Path | None, Field(examples=["/var/lib/stenod"])] = None
    """Where it is kept; left out: the user's data folder."""
    keep_days: Annotated[float, Field(ge=0)] = 90.0
    """What is older, in days, is removed; 0: nothing is too old."""
    most_mb: Annotated[float, Field(ge=0)] = 1000.0
    """Beyond this size in MB the oldest is removed; 0: it may grow."""
    sync_s: Annotated[float, Field(ge=0, le=3600)] = 1.0
    """What was told in so many seconds before a power cut may be lost; 0: nothing, at the price of delay."""

    @property
    def place(self) -> Path:
        """The folder that is used."""
        return self.folder or Path(platformdirs.user_data_dir("stenod"))


Port = Annotated[int, Field(ge=0, le=65535)]


class Protocols(Section):
    """Protocols of other programs that need a port of their own, at ``server.host``; 0: any free one."""

    wyoming: bool = False
    """For Home Assistant. It asks nobody for a token, whatever ``server.tokens`` says."""
    wyoming_port: Port = 10300
    """TCP."""
    wyoming_announce: bool = False
    """Home Assistant finds it by multicast DNS; needs the extra ``announce``."""
    vosk: bool = False
    """For the clients of vosk-server."""
    vosk_port: Port = 2700
    """A websocket, at any path."""
    whisperlive: bool = False
    """For the clients of WhisperLive."""
    whisperlive_port: Port = 9090
    """A websocket, at any path."""
    rest: bool = False
    """OpenAI's transcription of recordings; needs the extra ``rest``."""
    rest_port: Port = 8791
    """HTTP."""


class Microphone(Section):
    """A microphone that is captured into a channel."""

    enabled: bool = False
    """``stenod serve`` captures it (the option ``--mic``)."""
    device: Annotated[str | None, Field(examples=["USB"])] = None
    """Part of the device's name; left out: the system's default."""
    channel: Annotated[str, Field(pattern=CHANNEL_NAME)] = "mic"
    """The channel that it speaks into."""


class DictationRule(Section):
    """How `stenod dictate` types into windows of one kind."""

    window: str
    """Regular expression that the window's class matches, whole and in any case."""
    newline: Literal["return", "shift+return", "space"] = "return"
    """What "new line" types; "space": never a new line."""
    capitals: bool = True
    """False: small letters only."""
    trailing_space: bool = True
    """A space at the end of a dictation."""
    commands: bool = True
    """Heed spoken commands; False: they are words like others."""

    @field_validator("window")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"this is no regular expression: {error}") from error
        return pattern


class Dictation(Section):
    """What `stenod dictate` does."""

    typist: Literal["auto", "xdotool", "wtype", "paste", "dotool", "ydotool"] = "auto"
    """What types; auto: the first of xdotool (X11), wtype (Wayland) and paste that works here. dotool and
    ydotool: only what is on a US keyboard."""
    hotkey: Annotated[str | None, Field(examples=["KEY_PAUSE"])] = None
    """The kernel's name of a key, which is read from the keyboards themselves; left out: none."""
    hotkey_mode: Literal["hold", "toggle"] = "hold"
    """Listen while the key is down; or toggle: it is pressed to start and to stop."""
    sounds: bool = True
    """Short tones when listening begins and ends, and when something is wrong."""
    rules: tuple[DictationRule, ...] = ()
    """Tables ``[[dictation.rules]]``, of which the first holds whose ``window`` (a regular expression) is the
    focused window's class: ``newline`` ("return", "shift+return", "space"), ``capitals``, ``trailing_space``,
    ``commands``. Behind them is one for terminals, where no new line is typed."""


class Settings(BaseSettings):
    """All settings; frozen. Read them with ``load``."""

    model_config = SettingsConfigDict(
        env_prefix="STENOD_", env_nested_delimiter="__", frozen=True, extra="forbid"
    )

    server: Server = Server()
    engine: Engine = Engine()
    audio: Audio = Audio()
    segmentation: Segmentation = Segmentation()
    session: Session = Session()
    limits: Limits = Limits()
    journal: Journal = Journal()
    protocols: Protocols = Protocols()
    microphone: Microphone = Microphone()
    dictation: Dictation = Dictation()


def load(options: dict[str, Any], config: Path | None = None) -> Settings:
    """The settings of all sources; ``options`` are those of the command line, by section.

    Raises ``SettingsError`` with every fault there is, one a line, each naming its key or file.
    """
    if config is not None and not config.is_file():
        raise SettingsError(f"{config}: no such settings file")
    faults = [f"{name}: there is no such setting" for name in os.environ if _names_no_section(name)]
    files = [file for file in (config, USER_FILE, SYSTEM_FILE) if file is not None]

    class Sourced(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, *(_toml(settings_cls, file) for file in files)

    try:
        chosen = Sourced(**options)
    except ValidationError as error:
        faults += map(_fault, error.errors())
        raise SettingsError("\n".join(faults)) from error
    except SourceError as error:
        raise SettingsError(f"environment: {error}") from error
    if faults:
        raise SettingsError("\n".join(faults))
    return chosen


def _names_no_section(variable: str) -> bool:
    section, nested, _ = variable.removeprefix("STENOD_").partition("__")
    return variable.startswith("STENOD_") and bool(nested) and section.lower() not in Settings.model_fields


def _toml(settings: type[BaseSettings], file: Path) -> PydanticBaseSettingsSource:
    try:
        return TomlConfigSettingsSource(settings, file)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file}: {error}") from error


def _fault(error: ErrorDetails) -> str:
    key = ".".join(map(str, error["loc"]))
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return f"{key}: there is no such setting"
    shown = "" if isinstance(error["input"], BaseModel | dict) else f" (it is {error['input']!r})"
    return f"{key}: {message}{shown}"
