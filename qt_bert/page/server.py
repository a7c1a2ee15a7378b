"""Start the page's server: check the address, choose Streamlit's settings, open the first model."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import webbrowser
from contextlib import suppress
from pathlib import Path

from qt_bert.errors import ArgumentError
from qt_bert.page.settings import Settings

_PACKAGE = Path(__file__).resolve().parents[1]
_ENTRIES = (_PACKAGE.parent / "apps" / "inspection.py", _PACKAGE / "_apps" / "inspection.py")
_LOCAL = ("127.0.0.1", "localhost", "::1")


def entry_script() -> Path:
    """The page's script, in a checkout or a wheel. Raises ArgumentError where it is missing."""
    for path in _ENTRIES:
        if path.is_file():
            return path
    raise ArgumentError("the page's scripts are missing; reinstall qt-bert")


def check_port(host: str, port: int) -> None:
    """Raises ArgumentError, with the reason, where no server can listen at `host` and `port`."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ArgumentError(f"--host {host}: no such address here ({error})") from error
    family, kind, protocol, _, address = addresses[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            raise ArgumentError(
                f"cannot listen at {host}:{port} ({error.strerror}); "
                "stop what is there, or choose another --port"
            ) from error


def streamlit_arguments(host: str, port: int) -> list[str]:
    """The arguments of `streamlit` that start the page.

    They repeat the settings for safety of `apps/.streamlit/config.toml`, so that no setting of this
    machine or of the environment overrides them.
    """
    options: dict[str, object] = {
        "server.address": host,
        "server.port": port,
        "server.headless": True,
        "server.enableXsrfProtection": True,
        "server.enableCORS": True,
        "server.maxUploadSize": 10,
        "server.fileWatcherType": "none",
        "server.runOnSave": False,
        "server.enableStaticServing": False,
        "browser.serverAddress": "localhost" if ":" in host or host == "0.0.0.0" else host,
        "browser.gatherUsageStats": False,
        "client.showErrorDetails": "none",
        "client.disableDataExport": True,
        "client.toolbarMode": "viewer",
        "global.developmentMode": False,
        "logger.hideWelcomeMessage": True,
    }
    values = {k: str(v).lower() if isinstance(v, bool) else v for k, v in options.items()}
    flags = [f"--{name}={value}" for name, value in values.items()]
    if host in _LOCAL:
        # No other site can reach this server by a domain name that it resolves to this address.
        flags += [f"--server.allowedHosts={name}" for name in _LOCAL]
    return ["run", str(entry_script().with_name("server.py")), *flags]


def serve(
    settings: Settings, *, host: str, port: int, browser: bool, threads: int | None = None
) -> None:
    """Serve the page in this process until it is stopped; a thread opens the first model."""
    os.environ.update(settings.to_environment())
    # Idle threads must not spin: beside other processes, opening a model took 35 s instead of 1 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    arguments = streamlit_arguments(host, port)
    shown = f"[{host}]" if ":" in host else host
    print(url := f"http://{shown}:{port}", file=sys.stderr, flush=True)
    seen = browser and (
        sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    )
    opened = url.replace("0.0.0.0", "localhost") if seen else None
    threading.Thread(target=_visit, args=(settings, host, port, opened), daemon=True).start()
    from streamlit.web.cli import main

    sys.argv = ["streamlit", *arguments]
    main(prog_name="streamlit")


def _visit(settings: Settings, host: str, port: int, url: str | None) -> None:
    """Once the server answers, which torch would delay, show `url` and open the first model."""
    for _ in range(100):
        with suppress(OSError):
            socket.create_connection((host, port), timeout=1).close()
            break
        time.sleep(0.1)
    if url is not None:
        webbrowser.open(url)
    from qt_bert.page.frame import opening_of

    opening_of(settings)
