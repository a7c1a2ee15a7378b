"""The application that `qt-bert app` serves: the page, with the server's address in each HTML page.

Without the address Streamlit's browser code first looks for the server below the page's own address,
and the browser's console shows a 404.
"""

from pathlib import Path

import streamlit
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from qt_bert.page.frame import SCREENS

ADDRESS = (
    '<script>window.__streamlit = {BACKEND_BASE_URL: new URL(".", location.href).href}</script>'
)
INDEX = (Path(streamlit.__file__).parent / "static" / "index.html").read_text("utf-8")


async def page(request: Request) -> HTMLResponse:
    """Streamlit's own HTML, with the server's address."""
    return HTMLResponse(
        INDEX.replace("<head>", f"<head>{ADDRESS}", 1), headers={"Cache-Control": "no-cache"}
    )


app = streamlit.App(
    Path(__file__).with_name("inspection.py"), routes=[Route(f"/{name}", page) for name in SCREENS]
)
