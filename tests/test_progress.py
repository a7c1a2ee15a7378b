"""Progress in lines: rate and time left."""

from qt_bert import progress


def test_the_first_step_does_not_count_for_the_rate(monkeypatch, capsys):
    """A minute of compilation, then ten steps of a second: 75 are left at one a second."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.progress(100, "training", "steps") as shown:
        now[0] = 50.0
        shown.advance()
        for _ in range(9):
            now[0] += 1
            shown.advance()
        now[0] += 15
        shown.advance(15)
    lines = capsys.readouterr().err.splitlines()
    assert "training: 1/100 steps, 0.0/s, 1:22:30 left" in lines
    assert "training: 25/100 steps, 1.0/s, 1:15 left" in lines
