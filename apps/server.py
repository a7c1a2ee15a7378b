"""What `qt-bert app` serves: the page, and for each address below it where its server is.

Without that word Streamlit's browser side looks for the server below the address of a page first, and
the browser reports what is not there (404).
"""

from pathlib import Path

import streamlit
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from qt_bert.page.frame import SCREENS

WORD = '<script>window.__streamlit = {BACKEND_BASE_URL: new URL(".", location.href).href}</script>'
INDEX = (Path(streamlit.__file__).parent / "static" / "index.html").read_text("utf-8")


async def page(request: Request) -> HTMLResponse:
    """Streamlit's own start of a page, with the word."""
    return HTMLResponse(
        INDEX.replace("<head>", f"<head>{WORD}", 1), headers={"Cache-Control": "no-cache"}
    )


app = streamlit.App(
    Path(__file__).with_name("inspection.py"), routes=[Route(f"/{name}", page) for name in SCREENS]
)
