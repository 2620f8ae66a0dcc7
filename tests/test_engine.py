"""The engine's threads: work is done elsewhere, and its failures are contained."""

import asyncio
import threading
from pathlib import Path

import pytest
from stenod import settings
from stenod._native import BackendError, Worker
from stenod.engine import Engine
from stenod.models import ModelError


async def test_a_probe_is_a_real_inference(engine: Engine):
    assert await engine.probe()
    assert engine.succeeded_at is not None


async def test_work_runs_on_the_inference_thread_and_the_loop_goes_on(engine: Engine):
    """field-failures: Python threads tick while native code runs."""
    release = threading.Event()
    work = asyncio.wrap_future(
        engine.threads[0].submit(lambda worker: release.wait() and threading.current_thread())
    )
    await asyncio.sleep(0)
    assert not work.done()
    release.set()
    assert await work is not threading.current_thread()


async def test_after_a_backend_error_the_next_work_gets_a_new_worker(engine: Engine):
    """field-failures: the engine recovers from a failure."""

    def fail(worker: Worker) -> None:
        workers.append(worker)
        raise BackendError("made up")

    workers: list[Worker] = []
    thread = engine.threads[0]
    with pytest.raises(BackendError):
        await asyncio.wrap_future(thread.submit(fail))
    await asyncio.wrap_future(thread.submit(workers.append))
    first, second = workers
    assert first is not second
    await asyncio.wrap_future(thread.submit(workers.append))
    assert workers[2] is second


def test_a_broken_model_file_names_file_fault_and_remedy_once(tmp_path: Path):
    """field-failures: a bad model file is refused before use, naming it, what is wrong and what to do."""
    model = tmp_path / "broken.gguf"
    model.write_bytes(b"GGUF\3\0\0\0" + bytes(100))
    with pytest.raises(ModelError, match=r"broken\.gguf: [^/;]*; fetch or convert it again$"):
        Engine.load(settings.Engine(model=str(model)), settings.Session())


def test_a_broken_model_of_the_catalogue_is_to_be_pulled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("STENOD_MODELS_DIR", str(tmp_path))
    (tmp_path / "whisper-tiny-f16.gguf").write_bytes(b"GGUF\3\0\0\0" + bytes(100))
    with pytest.raises(ModelError, match=r"; remove it and run `stenod models pull whisper-tiny`$"):
        Engine.load(settings.Engine(model="whisper-tiny"), settings.Session())


def test_a_missing_model_file_is_told():
    with pytest.raises(ModelError, match=r"nowhere\.gguf"):
        Engine.load(settings.Engine(model="nowhere.gguf"), settings.Session())


def test_a_language_that_the_model_does_not_know_is_a_wrong_setting(model_path: Path):
    with pytest.raises(settings.SettingsError, match=r"^session\.language: .*'xx'.* de, .*en"):
        Engine.load(settings.Engine(model=str(model_path)), settings.Session(language="xx"))
