"""A built site, and every page of it in a browser: `python -m tests.docs.site FOLDER` prints what is wrong with it.

The pages come from a server of this process, which adds a script that keeps their errors, and one page that opens all
others in a frame of each width and sends back what it saw. So Chromium itself is all that is needed.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import snowballstemmer  # comes with Sphinx

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
WIDTHS = (400, 1000, 1400)  # px: a phone, a small window, a screen
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ABSENT = "the pages are NOT opened in a browser: install Chromium (apt-get install chromium)"
LIMIT = 900.0  # s for all pages
# what a newcomer types, and a page that must be among the first five that the site's search finds
SEARCHES = json.loads((HERE / "searches.json").read_text(encoding="utf-8"))

LISTED = sorted(
    name
    for page in (DOCS / "reference").glob("*.md")
    for block in re.findall(r"autosummary::\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for name in re.findall(r"^   ([\w.]+)$", block, re.MULTILINE)
)
STEM = snowballstemmer.stemmer("english").stemWord  # as Sphinx stems


# what the sections of ten lines print, with the cells of their pages before them
MONTH = r"month-\d\d.parquet (certified|corrected), \d+,\d+ rows\n"
TEN_LINES = {
    "users/scikit-learn": r"^certified accuracy 0\.(8\d|9\d?)\n$",
    "users/bambi": r"^certified\s+mean(.|\n)+scale\(time\)(.|\n)+sigma_carrier(.|\n)+ mean ",
    "users/brms": r"^certified\s+mean(.|\n)+sigma_herd(.|\n)+icc_herd",
    "teachers": r"^\s+observed\s+logistic\s+probit\s+cloglog\n(\d .*\n){8}$",
    "how-to/table": r"certified certified 0\.0\n$",
    "how-to/monthly": rf"({MONTH}){{11}}certified at once; means at most 0\.[01]\d sd apart\n$",
}


def printed(notebook: Path) -> str:
    """Return what the cells of an executed page print up to the end of its section "In ten lines"; "" without one."""
    text, inside = "", False
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        for heading in re.findall(r"^## .*$", source, re.MULTILINE) if cell["cell_type"] == "markdown" else ():
            if inside:
                return text
            inside = bool(re.search(r"\b[Ii]n ten lines", heading))
        parts = ["".join(output["text"]) for output in cell.get("outputs", ()) if output.get("name") == "stdout"]
        rest = "".join(parts[1:])  # MyST-NB joins all parts in the first, and leaves the others as they are
        text += parts[0] if parts and parts[0].endswith(rest) else "".join(parts)
    return text if inside else ""


def misprints(executed: Path, expected: dict[str, str] = TEN_LINES) -> list[str]:
    """Return the pages whose ten lines print something else than expected."""
    found = {page: printed(executed / f"{page}.ipynb") for page in expected}
    return [f"{page}: prints {found[page]!r}" for page in expected if not re.search(expected[page], found[page])]


class Page(HTMLParser):
    """The anchors of a page, and where it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.links += [given[name] for name in ("href", "src") if name in given]


def broken_links(folder: Path, unmade: str = " ") -> list[str]:
    """Return the links between pages of a folder that lead nowhere; `unmade` begins those that are not looked at."""
    pages = {path.resolve(): Page(path) for path in folder.rglob("*.html") if "_static" not in path.parts}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or parts.path.startswith(unmade):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            lost = not target.exists()
            if target in pages and parts.fragment:
                lost = unquote(parts.fragment) not in pages[target].anchors
            if lost:
                broken.append(f"{path.relative_to(folder)}: dead link {link}")
    return broken


def search_index(path: Path) -> dict[str, Any]:
    """Return what the site's search looks words up in."""
    index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8").removeprefix("Search.setIndex(")[:-1])
    return index


def pages_with(index: dict[str, Any], words: str) -> set[str]:
    """Return the pages that have all words, by their stems."""
    pages = []
    for word in words.split():
        places = [index[kind].get(STEM(word.lower()), []) for kind in ("terms", "titleterms")]
        pages.append({each for some in places for each in ([some] if isinstance(some, int) else some)})
    return {f"{index['docnames'][each]}.html" for each in set.intersection(*pages)}


def missing_entries(folder: Path) -> list[str]:
    """Return names of the reference without a page, and words that the search index should have and has not."""
    generated, index = folder / "reference" / "generated", search_index(folder / "searchindex.js")
    lost = [f"no page of bayescore.{name}" for name in LISTED if not (generated / f"bayescore.{name}.html").is_file()]
    return lost + [
        f"no {words!r} in {page}" for words, page in SEARCHES.items() if page not in pages_with(index, words)
    ]


class _Handler(SimpleHTTPRequestHandler):
    """Serve a folder, the page that opens its pages, and take what that page has seen."""

    plan: dict[str, object]
    found: list[str]
    done: threading.Event

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if self.path == "/__open":
            script = (HERE / "open_pages.js").read_text(encoding="utf-8")
            self._send(f"<!doctype html><body><script>const plan = {json.dumps(self.plan)};\n{script}</script>")
        elif path.suffix == ".html" and path.is_file():
            script = (HERE / "keep_errors.js").read_text(encoding="utf-8")
            text = path.read_text(encoding="utf-8")
            self._send(text.replace("<head>", f"<head><script>{script}</script>", 1))
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.found += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send("")
        self.done.set()

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):  # a page that is left stops what it loads
            super().handle_one_request()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def _send(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())


def seen(folder: Path, searches: dict[str, str]) -> list[str]:
    """Return what a browser finds wrong with the pages of a folder."""
    assert CHROMIUM is not None, ABSENT
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    plan = {"pages": pages, "widths": WIDTHS, "searches": searches}
    kept = {"plan": plan, "found": [], "done": threading.Event()}
    handler = type("Handler", (_Handler,), kept)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1600,1000"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *options, f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/__open"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if not handler.done.wait(LIMIT):
                handler.found.append(f"the browser had not opened all pages after {LIMIT:g} s")
        finally:
            browser.terminate()
            browser.wait(30)
            server.shutdown()
            server.server_close()
    return handler.found


def faults(folder: Path, searches: dict[str, str] = SEARCHES) -> list[str]:
    """Return all that is wrong with the pages of a folder: links, what a browser sees, what the search misses."""
    return broken_links(folder) + seen(folder, searches)


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    if CHROMIUM is None:
        print(ABSENT)
    wrong = missing_entries(site) + misprints(site.parent / "jupyter_execute")
    wrong += broken_links(site) if CHROMIUM is None else faults(site)
    print(*wrong, f"{len(wrong)} faults of the pages at widths of {WIDTHS} px", sep="\n")
    sys.exit(bool(wrong))
