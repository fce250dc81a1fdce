"""The server under test over HTTP, as an adapter sees it: short questions, answers or a reason why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import httpx

from ..errors import ConfigError
from . import Answer


class HttpxHttp:
    """:class:`~pytest_specdecode.engines.Http` on httpx.

    Proxies and other settings of the environment are ignored: what is measured is what was asked for. Each
    question opens and closes its own connection, since an idle one would keep an engine from ending.

    :param url: scheme, host and port, with or without a path prefix
    :param headers: sent with each request (authorization); never part of an answer or an error
    :raises ConfigError: for a URL that httpx cannot use
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        try:
            self._client = httpx.Client(
                base_url=url,
                headers=dict(headers or {}),
                trust_env=False,
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        except (httpx.InvalidURL, ValueError) as wrong:
            raise ConfigError(
                f"url = {url!r} cannot be used ({wrong}); write it as http://host:port"
            ) from wrong
        if self._client.base_url.scheme not in {"http", "https"} or not self._client.base_url.host:
            self._client.close()
            raise ConfigError(f"url = {url!r} cannot be used; write it as http://host:port")

    def get(self, path: str, *, timeout: float = 5.0) -> Answer:
        return self._ask("GET", path, None, timeout)

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = 30.0) -> Answer:
        return self._ask("POST", path, body, timeout)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float) -> Answer:
        try:
            response = self._client.request(
                method, path, json=None if body is None else dict(body), timeout=timeout
            )
        except httpx.TimeoutException as late:
            return Answer(0, error=f"no answer within {timeout:g} s ({type(late).__name__})")
        except httpx.HTTPError as failed:
            return Answer(
                0, error=f"{type(failed).__name__}: {failed}" if str(failed) else type(failed).__name__
            )
        return Answer(response.status_code, response.text)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
