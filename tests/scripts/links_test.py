# SPDX-License-Identifier: Apache-2.0
"""Links of the pages lead to files and headings that are there, and every page of docs/ is reached from README.md."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md"), *(ROOT / "tests").rglob("*.md")]
LINK = re.compile(r"(?<!\!)\[[^\]\[]*\]\(([^)\s]+)\)")


def text_of(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def links(page):
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", text_of(page))):
        if not re.match(r"[a-z]+:", link):
            path, _, heading = link.partition("#")
            yield link, (page.parent / path).resolve() if path else page, heading


def headings(page):
    """As hosts of repositories name them."""
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in re.findall(r"^#+ (.*)$", text_of(page), re.M)}


class LinksTest(unittest.TestCase):
    def test_they_lead_somewhere(self):
        faults, count = [], 0
        for page in PAGES:
            for link, path, heading in links(page):
                count += 1
                if not path.exists():
                    faults.append(f"{page.relative_to(ROOT)}: {link}: no such file")
                elif heading and heading not in headings(path):
                    faults.append(f"{page.relative_to(ROOT)}: {link}: no such heading")
        self.assertGreater(count, 80)
        self.assertEqual(faults, [])

    def test_every_page_is_reached_from_the_readme(self):
        reached, open_pages = set(), [ROOT / "README.md"]
        while open_pages:
            page = open_pages.pop()
            if page not in reached and page.suffix == ".md":
                reached.add(page)
                open_pages += [path for _, path, _ in links(page) if path.exists()]
        self.assertEqual({path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")} - {path.relative_to(ROOT) for path in reached}, set())


if __name__ == "__main__":
    unittest.main()
