"""Encryption, with certificates that may be renewed while the daemon runs."""

import asyncio
import logging
import ssl
from pathlib import Path

from ..settings import Server, SettingsError

logger = logging.getLogger(__name__)

CHECK_S = 30.0
"""How often the files are looked at."""


class Certificate:
    """A certificate and its key, and the context of the connections that use it."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises ``SettingsError`` if they cannot be used."""
        self._files = certificate, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._stamp = self._look()
            self.context.load_cert_chain(certificate, key)
        except OSError as error:  # SSLError is one
            raise SettingsError(
                f"server.tls_certificate, server.tls_key: {certificate}, {key}: {error}"
            ) from error

    async def keep_fresh(self) -> None:
        """Until cancelled, uses for new connections what the files hold; what cannot be used is logged."""
        while True:
            await asyncio.sleep(CHECK_S)
            self.refresh()

    def refresh(self) -> None:
        """Takes the files again if they have changed."""
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return
            # Into another context first: a pair that does not match would spoil the one in use.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
            self.context.load_cert_chain(*self._files)
        except OSError as error:
            logger.error(
                "%s: the new certificate cannot be used, the old one still is: %s", self._files[0], error
            )
            return
        self._stamp = stamp
        logger.info("%s: a new certificate is used", self._files[0])

    def _look(self) -> tuple[tuple[int, int], ...]:
        found = [path.stat() for path in self._files]
        return tuple((status.st_mtime_ns, status.st_ino) for status in found)


def certificate_of(server: Server) -> Certificate | None:
    """The certificate of the settings; None: connections are not encrypted. Raises ``SettingsError``."""
    if server.tls_certificate is None and server.tls_key is None:
        return None
    if server.tls_certificate is None or server.tls_key is None:
        raise SettingsError("server.tls_certificate, server.tls_key: one does not work without the other")
    return Certificate(server.tls_certificate, server.tls_key)
