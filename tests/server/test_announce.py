"""What Home Assistant does to find Wyoming, on the loopback interface."""

import asyncio

import pytest
from stenod.server.announce import WYOMING, announced
from zeroconf import ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf


async def test_it_is_found():
    found = asyncio.Queue[str]()

    def notice(zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        found.put_nowait(name)

    async with announced("127.0.0.1", 12345), AsyncZeroconf(interfaces=["127.0.0.1"]) as network:
        browser = AsyncServiceBrowser(network.zeroconf, WYOMING, handlers=[notice])
        name = await asyncio.wait_for(found.get(), 30)
        service = AsyncServiceInfo(WYOMING, name)
        assert await service.async_request(network.zeroconf, 10_000)
        assert (service.port, service.parsed_addresses()) == (12345, ["127.0.0.1"])
        await browser.async_cancel()


async def test_where_the_system_does_not_let_us_the_daemon_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse() -> None:
        raise OSError("not here")

    monkeypatch.setattr("ifaddr.get_adapters", refuse)
    async with announced("0.0.0.0", 12345):
        async with asyncio.timeout(30):
            while not caplog.messages:  # noqa: ASYNC110
                await asyncio.sleep(0)
    assert caplog.messages == ["Wyoming is not announced to the network: not here"]
