"""The files of the captions page, as a browser gets them."""

import re
import urllib.error
import urllib.request
from email.message import Message

import pytest


def get(daemon: str, path: str, **headers: str) -> tuple[int, Message, str]:
    request = urllib.request.Request(daemon.replace("ws:", "http:") + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_all_that_the_pages_refer_to_is_there(daemon: str) -> None:
    kinds = {}
    waiting = ["/", "/overlay"]
    while waiting:
        path = waiting.pop()
        if path in kinds:
            continue
        status, headers, text = get(daemon, path)
        assert status == 200, path
        kinds[path] = headers.get_content_type()
        waiting += [f"/{name}" for name in re.findall(r'(?:src|href)="(web/[^"]+)"', text)]
        waiting += [f"/web/{name}" for name in re.findall(r'(?:from "\./|URL\(")([\w-]+\.js)"', text)]
    assert kinds["/"] == kinds["/overlay"] == "text/html"
    assert kinds["/web/page.js"] == kinds["/web/pcm-worklet.js"] == "text/javascript"
    assert kinds["/web/overlay.css"] == "text/css"
    assert kinds["/web/icon.svg"] == "image/svg+xml"


def test_a_file_that_has_not_changed_is_not_sent_again(daemon: str) -> None:
    _, headers, text = get(daemon, "/web/page.js")
    assert text
    assert headers["Cache-Control"] == "no-cache"
    assert get(daemon, "/web/page.js", **{"If-None-Match": headers["ETag"]})[::2] == (304, "")
    assert get(daemon, "/web/page.css", **{"If-None-Match": headers["ETag"]})[0] == 200


def test_a_page_runs_nothing_but_its_own_files(daemon: str) -> None:
    policy = get(daemon, "/")[1]["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert get(daemon, "/")[1]["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/web/", "/web/index.html", "/web/../client.py", "/web/%2e%2e/client.py"])
def test_no_other_file_is_there(daemon: str, path: str) -> None:
    assert get(daemon, path)[0] == 404
