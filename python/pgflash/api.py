# SPDX-License-Identifier: PostgreSQL
"""pgflash as a library: read a stored run, say what it came to, make its report.

run = read_run(Path("out/demo/run.json"))
result(run)["ratios"]["flash-cache/baseline"]
Path("report.html").write_text(render_report(run))
"""

from pathlib import Path

from pgflash.model.run import Run
from pgflash.model.stored import StoredRunError, run_from_json
from pgflash.model.summary import summarize
from pgflash.report import render_page as render_report
from pgflash.report import result, sentences

__all__ = ["read_run", "render_report", "result", "sentences_of"]


def read_run(path: Path) -> Run:
    """Return the run that a file holds."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StoredRunError(
            f'could not read "{path}": {error.strerror}',
            hint="Name a run of 'pgflash lab show', its directory, or its run.json.",
        ) from error
    return run_from_json(text, name=str(path))


def sentences_of(run: Run) -> list[str]:
    """Return what the run says in words, as the report's head does."""
    summaries = summarize(run)
    said = [sentences.headline(run, summaries), sentences.second_line(run, summaries)]
    return [sentence for sentence in (*said, *sentences.cautions(run, summaries)) if sentence]
