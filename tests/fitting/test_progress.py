"""What `fit` shows while it works: lines of the steps done, and bars of the one under way, which go."""

import os
import re
import select
import subprocess
import sys
import time

import pytest

pty = pytest.importorskip("pty", reason="needs a terminal of Unix")
try:
    for _end in os.openpty():
        os.close(_end)
except OSError:
    pytest.skip("no pseudo-terminal can be opened here", allow_module_level=True)

# Python 3.12 warns of forks where the process has threads; the child here does nothing but start another program
pytestmark = [
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
    pytest.mark.essential("the lines that terminals and pipes get"),
]

SCRIPT = """
import time
import numpy as np, bayescore as bc

rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 2))
y = X[:, 0] + rng.logistic(size=6000) > 0

def slow():
    for start in range(0, 6000, 100):
        time.sleep(0.02)
        yield X[start : start + 100], y[start : start + 100]

def interrupted(work):
    try:
        work()
    except KeyboardInterrupt:
        print("interrupted")

if __name__ == "__main__":
    fit = bc.fit(X, y, random_state=1)
    print(*fit.story, "= told", sep="\\n")
    bc.fit(X, y, random_state=1, progressbar=False)
    print("= silent")
    if INTERRUPTED:
        interrupted(lambda: bc.fit(slow, positive=True, random_state=1))
        print("= of a pass")
        interrupted(lambda: bc.sample(fit.coreset, sampler="mala", draws=3_000_000, random_seed=1))
        print("= of chains")
        bc.certify(fit._drawn, fit.coreset, X, y)
        print("= alone")
"""
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([a-zA-Z])")
WIDE = {**os.environ, "TERM": "xterm", "COLUMNS": "300", "LINES": "50"}


def screen(text):
    """Return the lines that stand in a terminal after some output, and whether its cursor is seen."""
    lines, row, column, seen, at = [""], 0, 0, True, 0
    while at < len(text):
        if found := ESCAPE.match(text, at):
            number, what = found.groups()
            if what == "A":
                row -= int(number or 1)
            elif what == "K":
                assert number == "2"
                lines[row] = ""
            elif number == "?25":
                seen = what == "h"
            at = found.end()
            continue
        letter, at = text[at], at + 1
        if letter == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif letter == "\r":
            column = 0
        else:
            lines[row] = lines[row][:column].ljust(column) + letter + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines if line.strip()], seen


def in_terminal(script, *presses):
    """Return what a script writes to a terminal, and the seconds from each Ctrl-C to "interrupted".

    Of a pair of texts in `presses` the second is that of the bar at which Ctrl-C is pressed, after the first.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", script], WIDE)
    text, seconds, pressed = "", [], None
    while select.select([terminal], [], [], 60)[0]:
        try:
            text += os.read(terminal, 65536).decode(errors="replace")
        except OSError:  # Linux's end of a terminal
            break
        if pressed is not None and "interrupted" in text[pressed[0] :]:
            seconds.append(time.monotonic() - pressed[1])
            pressed = None
        if pressed is None and len(seconds) < len(presses):
            after, bar = presses[len(seconds)]
            if bar in text.partition(after)[2]:
                time.sleep(0.3)
                os.write(terminal, b"\x03")
                pressed = len(text), time.monotonic()
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] == 0, text
    return text, seconds


def part(text, end):
    """Return the output between the mark before and the mark `end`, a line of its own."""
    return re.split(r"^= .*\n", text.replace("\r\n", "\n").partition(f"= {end}\n")[0], flags=re.M)[-1]


@pytest.fixture(scope="module")
def run():
    return in_terminal(
        f"INTERRUPTED = True\n{SCRIPT}", ("= silent", "checking rows"), ("= of a pass", "sampling by mala")
    )


def test_a_step_is_a_line_of_the_story_and_its_bars_go(run):
    text = part(run[0], "told")
    for bar in ("checking rows", "sampling by", "certifying"):
        assert re.search(rf"\n  {bar}.*━", text)
    assert re.search(r"\rbuild +━.*0:00:0", ESCAPE.sub("", text))
    lines, seen = screen(text)
    assert [line.split()[0] for line in lines] == 2 * ["build", "sample", "certify"]
    assert lines[:3] == lines[3:]
    assert seen


def test_nothing_is_shown_where_nobody_asked(run):
    assert part(run[0], "silent") == ""


@pytest.mark.parametrize(("end", "place"), [("of a pass", 0), ("of chains", 1)])
def test_ctrl_c_is_prompt_and_leaves_the_cursor(run, end, place):
    text, seconds = run
    assert "━" in part(text, end)
    lines, seen = screen(part(text, end))
    assert seen
    assert lines[-1] == "interrupted"  # after a frame that rich writes twice, if Ctrl-C falls into its writing
    assert seconds[place] < 10.0


def test_a_verb_alone_shows_its_bar_and_leaves_nothing(run):
    text = part(run[0], "alone")
    assert re.search(r"\rcertifying.*━", ESCAPE.sub("", text))
    assert screen(text) == ([], True)


@pytest.mark.slow
def test_a_pipe_gets_nothing():
    command = [sys.executable, "-c", f"INTERRUPTED = False\n{SCRIPT}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert len(ran.stdout.splitlines()) == 5
