"""The documents as a whole: their links, their site, and what stands in several places."""

import importlib
import re
import subprocess
import sys
import tomllib

import pytest
from cases import cases
from environments import CHECKOUT
from test_docstrings import MODULES

import torchrl_pool

pytestmark = pytest.mark.docs

PAGES = sorted((CHECKOUT / "docs").rglob("*.md"))
DOCUMENTS = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *PAGES]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
LOADED = re.compile(r"<(?:script|img|link rel=.(?:stylesheet|preconnect|icon))[^>]*>")
ELSEWHERE = re.compile(r"(?:src|href)=[\"']?(?:https?:)?//(?!torchrl-pool\.github\.io)")


def prose(document):
    """A document without its code."""
    return re.sub(r"^```.*?^```$|`[^`\n]+`", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(document):
    """Those of its headings, and of the document that it takes in."""
    text = document.read_text()
    if taken := re.match(r'--8<-- "(.*)"$', text):
        text = (CHECKOUT / taken[1]).read_text()
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def dead_links(document):
    for link in LINK.findall(prose(document)):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        # Behind a picture stands which colour scheme shows it.
        shown = ("only-light", "only-dark") if target.suffix == ".svg" else None
        if not target.exists() or (anchor and anchor not in (shown or anchors(target))):
            yield f"{document.relative_to(CHECKOUT)}: {link}"


def test_no_link_is_dead():
    assert [link for document in DOCUMENTS for link in dead_links(document)] == []


def test_on_a_registry_readme_links_to_the_repository():
    program = (sys.executable, CHECKOUT / ".ci" / "registry_readme.py")
    shown = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    files = f"{project['urls']['Source']}/blob/v{project['version']}/"
    pictures = re.findall(r'(?:src|srcset)="([^"]*)"', shown)
    assert pictures
    for picture in pictures:
        assert (CHECKOUT / picture.removeprefix(files.replace("/blob/", "/raw/"))).exists(), picture
        assert picture.startswith("https:")
    links = LINK.findall(re.sub(r"^```.*?^```$", "", shown, flags=re.MULTILINE | re.DOTALL))
    assert len(links) > 20
    for link in links:
        assert re.match("https:|#", link)
        assert not link.startswith(files) or (CHECKOUT / link.removeprefix(files).partition("#")[0]).exists()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built."""
    pytest.importorskip("mkdocs", reason="the extra [docs] is not installed")
    # Not --quiet: warnings that are not written are no errors of --strict either.
    folder = tmp_path_factory.mktemp("site")
    build = (sys.executable, "-m", "mkdocs", "build", "-f", CHECKOUT / ".mkdocs.yml", "-d", folder)
    done = subprocess.run(build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout  # strict: a warning is an error
    return folder


def test_the_site_is_whole(site):
    for page in PAGES:
        path = page.relative_to(CHECKOUT / "docs").with_suffix("")
        folder = path.parent if path.name == "index" else path
        assert (site / folder / "index.html").exists()
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not [tag for tag in LOADED.findall(text) if ELSEWHERE.search(tag)], f"{page}: other hosts"
        assert not re.findall(r":(?:class|func|meth|data):<", text), f"{page}: markup of docstrings"


def test_the_reference_shows_main_methods_and_no_internals(site):
    shown = {
        page: re.findall(
            r'<h\d id="torchrl_pool\.([\w.]+)"', (site / "reference" / page / "index.html").read_text()
        )
        for page in ("envs", "mujoco", "collecting", "training", "vector_envs", "tasks", "testing")
    }
    assert {
        "PoolEnv.reset",
        "PoolEnv.rollout",
        "PoolEnv.step_and_maybe_reset",
        "PoolEnv.async_step_recv",
    } <= {*shown["envs"]}
    assert {"training.PPOUpdate.__call__", "training.TargetUpdate.__call__"} <= {*shown["training"]}
    names = [part for page in shown.values() for name in page for part in name.split(".")]
    assert [name for name in names if name.startswith("_") and name != "__call__"] == []
    envs = (site / "reference" / "envs" / "index.html").read_text()
    assert "<code>rand_<wbr>action</code>" in envs
    assert "Bases:" not in envs


@pytest.mark.parametrize("module", cases(MODULES))
def test_the_reference_names_what_is_public(module):
    told = re.findall(r"^::: (\S+)$", "".join(page.read_text() for page in PAGES), re.MULTILINE)
    public = importlib.import_module(module)
    assert {f"{module}.{name}" for name in public.__all__} <= set(told)
    index = (CHECKOUT / "docs" / "reference" / "index.md").read_text()
    assert {name for name in public.__all__ if f"`{name}`" not in index} == set()


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    citation = (CHECKOUT / ".github" / "CITATION.cff").read_text()
    assert project["version"] == torchrl_pool.__version__
    assert f"\nversion: {project['version']}\n" in citation
    assert f"## {project['version']}" in (CHECKOUT / "docs" / "changelog.md").read_text()


def test_the_address_is_the_same_everywhere():
    urls = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["urls"]
    citation = (CHECKOUT / ".github" / "CITATION.cff").read_text()
    settings = (CHECKOUT / ".mkdocs.yml").read_text()
    for url in (urls["Source"], urls["Documentation"]):
        assert url in citation
        assert url in settings
