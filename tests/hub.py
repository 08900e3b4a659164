"""A stand-in for Hugging Face's hub on this machine: enough of its interface to upload files and to download them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Repositories by name, each with the contents of its files by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, contents: bytes | dict[str, Any] | list[Any], status: int = 200, **headers: str) -> None:
        if not isinstance(contents, bytes):
            contents = json.dumps(contents).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(contents)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(contents)

    def do_GET(self) -> None:
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/[^/?]+)?(\?.*)?", self.path):
            files = self.server.repositories.get(found[1])
            if files is None:
                return self._answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
            names = [{"rfilename": name} for name in files]
            return self._answer({"id": found[1], "modelId": found[1], "sha": COMMIT, "siblings": names, "tags": []})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/.*", self.path):
            files = self.server.repositories[found[1]]
            return self._answer(
                [
                    {"type": "file", "path": name, "size": len(contents), "oid": hashlib.sha1(contents).hexdigest()}
                    for name, contents in files.items()
                ]
            )
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/([^?]+)(\?.*)?", self.path):
            contents = self.server.repositories.get(found[1], {}).get(found[2])
            if contents is None:
                return self._answer({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound")
            etag = hashlib.sha256(contents).hexdigest()
            return self._answer(contents, ETag=f'"{etag}"', X_Repo_Commit=COMMIT)
        return self._answer({"error": f"not known here: GET {self.path}"}, 404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            self.server.repositories.setdefault(name, {})
            return self._answer({"url": f"{self.server.address}/{name}"})
        if re.fullmatch(r"/api/models/[^/]+/[^/]+/preupload/main(\?.*)?", self.path):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                for file in json.loads(body)["files"]
            ]
            return self._answer({"files": files})
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main(\?.*)?", self.path):
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    contents = base64.b64decode(entry["value"]["content"])
                    self.server.repositories[found[1]][entry["value"]["path"]] = contents
            url = f"{self.server.address}/{found[1]}/commit/{COMMIT}"
            return self._answer({"success": True, "commitUrl": url, "commitOid": COMMIT})
        if self.path == "/api/validate-yaml":
            return self._answer({"errors": [], "warnings": []})
        return self._answer({"error": f"not known here: POST {self.path}"}, 404)


@contextmanager
def local_hub() -> Iterator[Hub]:
    """A hub that answers while the block runs."""
    hub = Hub()
    thread = Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()
