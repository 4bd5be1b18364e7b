"""The API server as a user's program meets it: requests and one watch, in one event loop."""

import json
import ssl

import aiohttp

GROUP = "/apis/justitia.dev/v1alpha1"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_MAX_EVENT_BYTES = 4 * 2**20


class RefusedError(Exception):
    """The server refused a request."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Api:
    """Requests with the rights of a kubeconfig's user; an async context manager."""

    def __init__(self, kubeconfig):
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = cluster["server"]
        self._ssl = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._ssl.load_cert_chain(user["client-certificate"], user["client-key"])
        self._session = None

    async def __aenter__(self):
        connector = aiohttp.TCPConnector(ssl=self._ssl, limit=0)
        self._session = aiohttp.ClientSession(
            self._server, connector=connector, read_bufsize=_MAX_EVENT_BYTES
        )
        return self

    async def __aexit__(self, *_):
        await self._session.close()

    async def send(self, method, path, body=None, *, kind="application/json", **query):
        """Returns the answer.

        Raises:
            RefusedError: the server did not do it.
        """
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": kind}
        timeout = aiohttp.ClientTimeout(total=60)
        async with self._session.request(
            method, path, data=data, headers=headers, params=query, timeout=timeout
        ) as answer:
            await _require_taken(answer)
            return await answer.json()

    async def apply(self, path, body, *, manager):
        """Server-side apply, as ``kubectl apply --server-side --force-conflicts`` does."""
        query = {"fieldManager": manager, "force": "true"}
        return await self.send("PATCH", path, body, kind=APPLY, **query)

    async def watch(self, path):
        """Everything that there is, then every change, for as long as the server likes.

        Raises:
            RefusedError: the server did not begin.
        """
        query = {"watch": "1", "timeoutSeconds": "7200"}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params=query, timeout=timeout) as answer:
            await _require_taken(answer)
            async for line in answer.content:
                yield json.loads(line)


async def _require_taken(answer):
    if answer.status >= 400:
        said = (await answer.text())[:500]
        raise RefusedError(answer.status, f"{answer.method} {answer.url.path}: {said}")


def application_path(key, part=""):
    namespace, name = key
    return f"{GROUP}/namespaces/{namespace}/llmapplications/{name}{part}"
