"""The report says what the rows say, and its HTML page needs nothing but itself."""

import base64
import html.parser
import re
from typing import get_args

import pytest

from bouncy.experiments.claims import Word, judge
from bouncy.experiments.page import Badge, Bullets, Heading, Paragraph, Picture, Strong, Table, as_html, as_markdown
from bouncy.experiments.report import compose, describe_errors, describe_views, write_report
from experiments.made_up import MACHINE, levels, make, make_views

pytestmark = pytest.mark.slow

LEVEL = levels(bps_exponential=1, bps_gaussian=2, hmc=3)
PAPER_ADDRESS = "https://arxiv.org/abs/1711.00922"
VOID = {"meta", "img", "br", "link", "hr"}
NASTY = '<script>alert("1 & 2")</script> | *x* `y` [z](http://example.org)'


class Reader(html.parser.HTMLParser):
    """Checks that tags are closed in order, and collects tags and addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.addresses = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.addresses += [value for name, value in attributes if name in ("src", "href", "srcset", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [], "tags are left open"
    return reader


@pytest.fixture(scope="module")
def results():
    return {figure: make(figure, LEVEL) for figure in ("figure1", "figure2")}


@pytest.fixture(scope="module")
def markdown(results):
    return as_markdown(compose(results, None, MACHINE))


@pytest.fixture(scope="module")
def directory(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "new"
    write_report(path, results, make_views(), MACHINE)
    return path


def test_all_files_are_written(directory):
    """Catches a file that is missing or has another name."""
    assert {file.name for file in directory.iterdir()} == {
        "figure1.png", "figure2.png", "views.png", "report.md", "report.html"}  # fmt: skip


def test_html_is_well_formed_and_self_contained(directory):
    """Catches a page that loads something from elsewhere, runs scripts, or has unclosed tags."""
    text = (directory / "report.html").read_text(encoding="utf-8")
    reader = read(text)
    assert {address for address in reader.addresses if not address.startswith("data:")} == {PAPER_ADDRESS}
    assert {tag for tag, _ in reader.tags} & {"script", "iframe", "link", "object", "embed"} == set()
    assert "@import" not in text
    assert "url(" not in text
    pictures = [attributes for tag, attributes in reader.tags if tag == "img"]
    assert len(pictures) == 3
    for name, attributes in zip(("figure1", "figure2", "views"), pictures, strict=True):
        assert attributes["alt"]
        data = attributes["src"].removeprefix("data:image/png;base64,")
        assert base64.b64decode(data) == (directory / f"{name}.png").read_bytes()


def test_page_works_on_a_phone(directory):
    """Catches a table that is wider than the screen without scrolling, and a page that is shown zoomed out."""
    text = (directory / "report.html").read_text(encoding="utf-8")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert text.count("<table>") == text.count('<div class="table">\n<table>') > 0
    assert ".table { overflow-x: auto;" in text


def test_markdown_links_what_was_written(directory):
    """Catches a picture that is not found, and tables whose rows differ in length."""
    text = (directory / "report.md").read_text(encoding="utf-8")
    linked = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert linked == ["figure1.png", "figure2.png", "views.png"]
    assert set(re.findall(r"https?://[^\s>)]+", text)) == {PAPER_ADDRESS}
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_every_verdict_is_in_both_pages(directory, results):
    """Catches a claim that is left out, or that reads differently in the report and on the terminal."""
    markdown = (directory / "report.md").read_text(encoding="utf-8")
    page = (directory / "report.html").read_text(encoding="utf-8")
    verdicts = judge(results)
    assert {verdict.verdict for verdict in verdicts} >= {"reproduces", "does not reproduce"}
    for number in range(1, 6):
        words = [verdict.verdict for verdict in verdicts if verdict.number == number]
        row = next(line for line in markdown.splitlines() if line.startswith(f"| {number}. "))
        assert re.findall(r"\*\*([a-z ]+)\*\*", row) == words
    shown = re.findall(r'<span class="badge \w+">([^<]+)</span>', page)
    assert shown == [verdict.verdict for verdict in verdicts]


def test_every_median_is_in_the_table(directory, results):
    """Catches medians that are left out, and a winner that is not marked."""
    text = (directory / "report.md").read_text(encoding="utf-8")
    # Three bars as published and thirteen of ours, in 8 and 5 cells.
    assert len(re.findall(r"[\d.]+e-\d+(?:\*\*)?<br>[\d.]+e-\d+–[\d.]+e-\d+", text)) == 16 * 13
    # One winner in each cell of each edition.
    assert len(re.findall(r"\*\*[\d.]+e-\d+\*\*<br>", text)) == 2 * 13


def test_captions_follow_the_data(results):
    """Catches a fixed text: the winner must change when two samplers change places."""
    swap = {"bps-exponential": "bps-gaussian", "bps-gaussian": "bps-exponential"}
    for settings, rows in results.values():
        text = describe_errors(settings, rows)[0]
        assert "BPS exponential" in text
        assert "BPS Gaussian" not in text
        other = describe_errors(settings, [row._replace(sampler=swap.get(row.sampler, row.sampler)) for row in rows])[0]
        assert other == text.replace("BPS exponential", "BPS Gaussian")


def test_caption_says_where_a_lead_may_be_chance():
    """Catches a winner that is announced although the next is as good."""
    *text, _ = describe_errors(*make("figure2", levels()))
    assert all("The lead is not established anywhere" in sentence for sentence in text)

    def level(edition, sampler, estimator, sigma_M, sigma_r):
        return 1e-5 if sampler == "hmc" and estimator == "ends" and sigma_M < 0.3 else 2e-5

    first = describe_errors(*make("figure2", level))[0]
    assert first.startswith("As published, the paper's samplers: HMC at sigma_M = 0.02, 0.05, 0.1 and 0.2 (×")
    assert first.endswith("The lead is not established at sigma_M = 0.5.")


def test_tempered_chains_are_compared_with_the_best_of_the_others():
    """Catches a fixed text about tempered chains, or one from another estimator, edition or side of 1."""

    def level(edition, sampler, estimator, sigma_M, sigma_r):
        if (sampler, estimator) == ("tempered", "conditional"):
            return {0.2: 5e-5, 2.0: 1e-6}[sigma_M] if sigma_r else 1e-5
        if sampler == "tempered" or edition == "published":
            return 1e-9
        return 1e-5 if (sampler, estimator) == ("gibbs", "path") else 2e-5

    *others, last = describe_errors(*make("figure1", level, spread=0.0))
    fields = "sigma_r = 0.1, 0.5 and 1"
    assert last == (
        f"Ours, Tempered with conditional means against the best of these: ahead at sigma_M = 2, {fields} (×10); "
        f"behind at sigma_M = 0.2, {fields} (×0.2); undecided at sigma_M = 0.2, sigma_r = 0 and at sigma_M = 2, "
        "sigma_r = 0 (×1)."
    )
    assert "all samplers but Tempered, all estimators: Gibbs at sigma_M = 0.2 and at sigma_M = 2 (×2)." in others[-1]
    assert not any("Tempered" in sentence for sentence in others[:-1])


def test_a_pilot_that_is_longer_than_a_run_is_reported(results):
    """Catches tempered chains that take more time than the others without a word."""
    settings, rows = results["figure2"]
    late = [row._replace(cpu_seconds=1.25) if row.sampler == "tempered" else row for row in rows]
    sentence = "Tempered took 1.2 s: its pilot alone is longer than a run."
    assert sentence in as_markdown(compose({"figure2": (settings, late)}, None, MACHINE))
    assert sentence[-20:] not in as_markdown(compose({"figure2": (settings, rows)}, None, MACHINE))


def test_views_are_described_by_their_numbers():
    """Catches a decay or a holding time in the wrong unit."""
    text = describe_views(make_views())[0]
    # exp(-k / 10) is below 1/e from the 11th lag of 0.1 ms on.
    assert "falls below 1/e after 1.1 ms (BPS exponential)" in text
    assert re.search(r"in sweeps: .*0\.0(19|2|21) \(HMC\)", text)


def test_one_figure_is_enough(tmp_path, results):
    """Catches a report that needs both figures and the views."""
    write_report(tmp_path, {"figure2": results["figure2"]}, None, MACHINE)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert {file.name for file in tmp_path.iterdir()} == {"figure2.png", "report.md", "report.html"}
    assert "not measured" in text
    assert "figure1.png" not in text
    read((tmp_path / "report.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_report_is_the_same_every_time(directory, results, tmp_path):
    """Catches dates, random resamples or the order of a set in the report."""
    write_report(tmp_path, results, make_views(), MACHINE)
    for name in ("report.md", "report.html"):
        assert (tmp_path / name).read_bytes() == (directory / name).read_bytes()


def test_settings_seed_and_missing_runs_are_reported(results, markdown):
    """Catches a report that hides how it was made, or that runs are missing."""
    assert "Seed 1711." in markdown
    assert "30 runs of 0.5 s of CPU time per sampler, of which the first 10% is discarded" in markdown
    assert "travel time 6.5π" in markdown
    assert "runs are there" not in markdown
    settings, rows = results["figure1"]
    partial = as_markdown(compose({"figure1": (settings, [row for row in rows if row.run < 12])}, None, MACHINE))
    assert "Only 96 of 240 runs are there." in partial


def test_machine_is_the_one_that_is_given(results, markdown):
    """Catches a report that names the machine it was written on in place of the one that measured."""
    assert "Machine: processor Abacus 9 &lt;x&gt;, 2 cores, Python 3.11.7, numba 0.61.0, bouncy 0.1.0." in markdown
    assert "Machine" not in as_markdown(compose({"figure2": results["figure2"]}, None, {}))


def test_model_is_the_one_that_is_drawn(results):
    """Catches sigma_M described as the standard deviation of the couplings, which is sigma_M / sqrt(2)."""
    text = as_html(compose({"figure1": results["figure1"]}, None, MACHINE)[:5], None)
    assert "M\u00a0=\u00a0(A + A&#x27;)/2 and a zero diagonal" in text
    assert "A<sub>ij</sub> ~ N(0, σ<sub>M</sub>²), r<sub>i</sub> ~ N(0, σ<sub>r</sub>²)" in text
    assert "standard deviation" not in text


@pytest.mark.parametrize(
    ("figures", "named"),
    [(("figure1",), "figure 1"), (("figure2",), "figure 2"), (("figure1", "figure2"), "figure 1 and figure 2")],
)
def test_only_figures_that_were_run_are_mentioned(results, figures, named):
    """Catches a report that mentions a figure which was not run, or a caveat about one."""
    text = as_markdown(compose({figure: results[figure] for figure in figures}, None, MACHINE))
    assert f"A rerun of {named} of A. Pakman" in text
    assert ("in figure 2 too" in text) == ("figure2" in figures)


def test_every_word_of_a_verdict_is_explained_and_has_its_colour(markdown, tmp_path):
    """Catches a verdict that the reader must guess the meaning of, or that looks like another one."""
    for word in get_args(Word):
        assert re.search(rf"^- {word}: .*The last claim: ", markdown, flags=re.MULTILINE)
    words = [word for word in get_args(Word) if word not in ("undecided", "not measured")]
    page = as_html([Table("", [""], [[Badge(word)] for word in words])], tmp_path)
    kinds = re.findall(r'<span class="badge (\w+)">', page)
    colours = {kind: re.search(rf"^\.{kind} {{ background: (#\w+)", page, flags=re.MULTILINE)[1] for kind in kinds}
    assert len(set(colours.values())) == len(words)


def test_choice_of_low_and_high_is_explained(markdown):
    """Catches a report that presents the split of sigma_M at d = 100 as the paper's."""
    choice = "low means σ<sub>M</sub> = 0.02 and 0.05 and high means σ<sub>M</sub> = 0.2 and 0.5, a choice made"
    assert choice in markdown
    assert "σ<sub>M</sub> = 0.1 is shown beside them, but these claims are not judged by it" in markdown


def test_speed_is_that_of_the_chain_which_made_the_estimate(results):
    """Catches the speed of one of two chains of a sampler reported for both."""
    settings, rows = results["figure2"]
    quick = [
        row._replace(hits=3 * row.hits) if (row.edition, row.sampler, row.estimator) == ("ours", "hmc", "ends") else row
        for row in rows
    ]
    text = as_markdown(compose({"figure2": (settings, quick)}, None, MACHINE))
    assert "| ours | HMC | ends of trajectories | 30 | 5 |" in text
    assert "| ours | HMC | whole path and conditional means | 10 | 5 |" in text
    assert "| ours | Gibbs | whole path and conditional means | 10 | 5 |" in text


def test_all_texts_are_escaped(tmp_path):
    """Catches markup that gets into a page through a text."""
    (tmp_path / "a.png").write_bytes(b"x")
    blocks = [
        Heading(NASTY, 1),
        Paragraph(NASTY),
        Bullets([NASTY]),
        Table(NASTY, [NASTY, "b"], [[NASTY, Strong(NASTY)], [Badge(NASTY), "sigma_M = 1"]]),
        Picture("a.png", NASTY, NASTY),
    ]
    text = as_html(blocks, tmp_path)
    reader = read(text)
    assert "script" not in {tag for tag, _ in reader.tags}
    assert "σ<sub>M</sub>\u00a0=\u00a01" in text
    markdown = as_markdown(blocks)
    assert "<script" not in markdown
    assert not re.search(r"(?<!\\)\[z", markdown)
    assert not re.search(r"(?<!\\)`", markdown)
